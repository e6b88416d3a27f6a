"""The simulated world, hidden from the principal: true rewards, drifts, players, adversaries."""
