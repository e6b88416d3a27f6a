"""`entice demo`: a demo campaign with simulated visitors."""
