"""The studio as an extension of the service's app: its routes, and the state that they share."""

from __future__ import annotations

from litestar import Router

from entice.service.http.context import AppContext, Extension
from entice.service.operations.invariants import ReplayView
from entice.studio.jobs.job import Reproduce
from entice.studio.jobs.queue import JobQueue
from entice.studio.jobs.shared_job import SharedJob


class Studio(Extension):
    """The job queue, and results that are kept while the service runs."""

    def __init__(self, router: Router) -> None:
        super().__init__(router)
        self.jobs = JobQueue()
        self.paper = SharedJob(Reproduce(), "paper")
        """The reproduction of the paper, which starts when a client requests it."""
        self.replays: dict[str, ReplayView] = {}
        """The last replay of each campaign."""

    def start_shutdown(self) -> None:
        """Reject new jobs, and end those that wait or run."""
        self.jobs.cancel_all()
        self.paper.cancel()

    async def close(self) -> None:
        """Stop the simulation processes."""
        await self.jobs.close()
        await self.paper.close()


def studio_of(context: AppContext) -> Studio:
    """Return the studio that is mounted on an app."""
    [found] = [e for e in context.extensions if isinstance(e, Studio)]
    return found
