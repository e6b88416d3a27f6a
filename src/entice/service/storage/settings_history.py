"""The changes of a campaign's settings, from its log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from entice.api_types import SettingChange
from entice.service.domain import events as log
from entice.service.domain.views import to_datetime

MAX_CHANGES = 1000
"""Number of changes that are kept for each campaign: the last ones."""
KINDS = frozenset({"created", "changed", "arms_added", "arm_retired"})
"""Kinds of the events that change settings."""


class SettingChanges:
    """The last changes of a campaign's settings, oldest first."""

    def __init__(self) -> None:
        self._settings: dict[str, Any] = {}
        self._changes: deque[SettingChange] = deque(maxlen=MAX_CHANGES)

    def apply(self, body: bytes) -> None:
        """Apply an event of one of the `KINDS`."""
        event = log.decode(body)
        assert isinstance(event, log.Created | log.Changed | log.ArmsAdded | log.ArmRetired)
        for setting, arm, before, after in self._changed(event):
            at, by = to_datetime(event.at), event.by
            change = SettingChange(event.seq, at, by, None, setting, arm, before, after)
            self._changes.append(change)

    def _changed(
        self, event: log.Created | log.Changed | log.ArmsAdded | log.ArmRetired
    ) -> Iterator[tuple[str, str | None, Any, Any]]:
        match event:
            case log.Created(spec=spec):
                self._settings = dict(spec)
                yield "created", None, None, None
            case log.Changed(changes=changes):
                for name, after in changes.items():
                    yield name, None, self._settings.get(name), after
                self._settings |= changes
            case log.ArmsAdded(arms=arms):
                yield "arms", None, None, list(arms)
            case log.ArmRetired(arm=arm, retired=retired):
                yield "retired", arm, not retired, retired

    def newest_first(self, names: Mapping[str, str]) -> list[SettingChange]:
        """Return the changes. `names` are the labels of keys by id."""
        return [
            SettingChange(
                change.seq, change.at, change.by, names.get(change.by or ""),
                change.setting, change.arm, change.before, change.after,
            )
            for change in reversed(self._changes)
        ]  # fmt: skip
