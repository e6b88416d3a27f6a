"""The fault-injection trials, one module each."""
