"""The queue of simulation jobs and the worker process that runs them."""
