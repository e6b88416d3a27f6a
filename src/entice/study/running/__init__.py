"""The execution of a study: cells, blocks of replications, executors, output folders."""
