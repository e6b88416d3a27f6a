"""The simulation process and the jobs it runs for the studio."""
