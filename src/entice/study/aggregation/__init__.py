"""Statistics of replications: exact where they fit in memory, streaming where they do not."""
