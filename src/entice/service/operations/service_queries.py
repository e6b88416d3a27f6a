"""The queries of the service: those of the database, and campaigns with their alerts."""

from __future__ import annotations

from entice.api_types import CampaignWithAlerts
from entice.service.operations.alerts import CampaignAlerts
from entice.service.storage.queries import Queries, load_state, view_with_segments
from entice.service.storage.store import Store


class ServiceQueries(Queries):
    """Queries that the service and its read processes execute, each with caches of its own."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.alerts = CampaignAlerts(self.drifts)

    def campaign(self, name: str) -> CampaignWithAlerts:
        """Return a campaign, with the averages of its segments and its alerts."""
        with self.store.read() as session:
            state = load_state(session, name)
            view = view_with_segments(session, state)
            return self.alerts.add_to(session, state, view)
