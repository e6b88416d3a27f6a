"""Running the service: server, verification, export, metrics, warm-up."""
