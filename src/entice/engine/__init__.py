"""The compiled simulation loop and its exact shortcuts."""
