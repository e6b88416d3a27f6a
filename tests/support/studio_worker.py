"""The studio's worker process as most tests run it, which costs less than that of a user.

It does not warm up: that compiles twenty combinations, a minute of CPU with an empty cache, also if
a test ends meanwhile. Its reproduction of the paper has fewer replications.
"""

from __future__ import annotations

import sys

from sizes import sized

from entice.studio.jobs import paper_data, queue

REPLICATIONS = sized(20, paper_data.REPLICATIONS)
"""Of the reproduction of the paper."""
_WORKER = f"""
import sys
import entice.studio.jobs.worker as worker
worker.warm_up_steps = lambda: ()
if worker.BACKGROUND in sys.argv:
    from entice.studio.jobs import paper_data
    paper_data.REPLICATIONS = {REPLICATIONS}
worker.main()
"""
WORKER = (sys.executable, "-P", "-c", _WORKER)
"""The command that starts it."""
USERS_WORKER = queue._COMMAND
"""The worker of a user."""


def use_in_this_process() -> None:
    """Let the services of this process start this worker."""
    queue._COMMAND = WORKER
