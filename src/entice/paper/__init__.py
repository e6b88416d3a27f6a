"""The paper: its instance, its published numbers, and what they really ran."""
