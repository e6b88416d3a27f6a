"""A live principal behind HTTP: the step of the simulator, a budget, and a log of every event."""
