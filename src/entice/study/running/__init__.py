"""Running a study: cells, blocks of replications, executors, folders."""
