"""The HTTP API, on Litestar: one module of routes for each resource.

`app` builds the application. `routes` declares routes, `requests` decodes and authorizes them,
`problems` translates errors, and `openapi` describes them.
"""
