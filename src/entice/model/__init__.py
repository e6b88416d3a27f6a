"""The principal's side of Algorithm 1: it sees counts and averages of feedback, not true means."""
