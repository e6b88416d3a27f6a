"""The compiled simulation loop, and fast paths that are exact in distribution."""
