"""The studio's routes, mounted on the service's app."""
