"""The studio: a page to look at everything on, and the process that simulates for it.

`page/` is the page itself, `page.py` serves it. `asked.py` reads what the page asks for and refuses
what is too much, `jobs.py` queues it for a process of its own, `process.py` is that process,
`jobs.py` names what it can do: `pictures.py` simulates, `race.py` traces, `plans.py` plans,
`tables.py` reproduces the paper, `replays.py` replays a log. `demo.py` shows it all on a shop.
"""
