"""The studio in a real browser: every screen, as a visitor sees and uses it."""
