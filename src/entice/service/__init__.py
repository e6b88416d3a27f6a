"""The live service: the simulator's step behind HTTP, with a budget and an event log."""
