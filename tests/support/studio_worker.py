"""The studio's worker process as most tests run it, which costs less than that of a user.

It imports nothing before its first job, which takes 1.2 s of CPU, and does not warm up, which
compiles twenty combinations. A worker starts with each page, and most pages of the tests send no
job. Its reproduction of the paper has fewer replications.
"""

from __future__ import annotations

import sys

from sizes import sized

from entice.studio.jobs import paper_data, queue

REPLICATIONS = sized(20, paper_data.REPLICATIONS)
"""Of the reproduction of the paper."""
_WORKER = f"""
import select, sys
first_job = select.poll()
first_job.register(0, select.POLLIN)
if first_job.poll()[0][1] & select.POLLHUP:
    sys.exit()  # the service has ended
import entice.studio.jobs.worker as worker
worker.warm_up_steps = lambda: ()
if worker.BACKGROUND in sys.argv:
    from entice.studio.jobs import paper_data
    paper_data.REPLICATIONS = {REPLICATIONS}
worker.main()
"""
WORKER = (sys.executable, "-P", "-c", _WORKER)
"""The command that starts it."""
_ECHO = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(b'.{"kind":"done"}\\n')
    sys.stdout.buffer.flush()
"""
ECHO_WORKER = (sys.executable, "-c", _ECHO)
"""A worker that finishes every job at once."""
USERS_WORKER = queue._COMMAND
"""The worker of a user."""


def use_in_this_process() -> None:
    """Let the services of this process start this worker."""
    queue._COMMAND = WORKER
