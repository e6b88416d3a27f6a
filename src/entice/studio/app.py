"""The studio as an extension of the service's app, as `entice serve` mounts it."""

from __future__ import annotations

from litestar import Router

from entice.studio.http import page_files, simulations, trust
from entice.studio.studio import Studio


def studio_extensions() -> list[Studio]:
    """Return the extensions to mount on the service's app: a list with the studio."""
    routes = [*simulations.ROUTES, *trust.ROUTES, *page_files.ROUTES]
    return [Studio(Router("/", route_handlers=routes))]
