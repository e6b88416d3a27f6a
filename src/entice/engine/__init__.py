"""How a step becomes a fast study: the replication loop, and its compilation."""
