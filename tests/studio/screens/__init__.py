"""The studio in a real browser. A package, so that its package-scoped browser ends with it."""
