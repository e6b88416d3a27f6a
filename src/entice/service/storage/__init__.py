"""The databases, the group-commit writer, and queries."""
