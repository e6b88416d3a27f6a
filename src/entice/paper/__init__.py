"""The paper: its experiment, its published numbers, and the set-ups that explain them."""
