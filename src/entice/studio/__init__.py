"""The studio: a web page for simulations, plans and campaigns, mounted on the service's app.

`page/` holds the page and `page_bundle.py` its files as they are sent. `jobs/` is the queue of
simulations and the worker process that runs them, `http/` the routes, `demo/` is `entice demo`.
"""
