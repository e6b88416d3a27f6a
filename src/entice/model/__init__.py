"""What is decided, from what can be seen: counts and averages of feedback, never true means."""
