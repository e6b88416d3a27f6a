"""The studio: a web page for simulations, plans and campaigns, mounted on the service's app.

`page/` holds the page's files, which `page_bundle.py` compresses for sending. `jobs/` has the queue
of simulations and the worker process that runs them, `http/` the routes, `demo/` `entice demo`.
"""
