"""Studies: the spec, blocks of replications, executors, aggregation and results."""
