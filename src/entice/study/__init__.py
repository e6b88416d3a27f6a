"""Running a study: blocks, threads, progress, resumption, and the result."""
