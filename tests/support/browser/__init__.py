"""Helpers of the tests that drive the studio in a real browser."""
