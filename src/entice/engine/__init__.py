"""How a step becomes a fast study: random streams, the replication loop, compilation."""
