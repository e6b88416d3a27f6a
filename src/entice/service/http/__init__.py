"""What the service answers over HTTP, one file for each resource."""
