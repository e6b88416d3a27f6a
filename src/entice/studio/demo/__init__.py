"""`entice demo`: a demo campaign with simulated visitors, and a reproduction of the paper."""
