"""The service's app with the studio mounted on it: what `entice serve` runs."""

from __future__ import annotations

from entice.studio.http import page_files, simulations, trust
from entice.studio.studio import Studio


def studio_extensions() -> list[Studio]:
    """Return what to mount on the service's app: the studio."""
    return [Studio((*simulations.OPERATIONS, *trust.OPERATIONS, *page_files.OPERATIONS))]
