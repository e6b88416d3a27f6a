"""What the simulator knows and the principal does not: true rewards, and how payment bends them."""
