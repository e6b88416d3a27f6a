"""The files of the studio's page, compressed once, with an ETag of their content."""

from __future__ import annotations

import gzip
import json
import re
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from entice.money import NO_CURRENCY, known_currencies

HOME = "index.html"
PLOTLY = "plotly.min.js"
"""Served from the plotly package."""
CURRENCIES = "js/currencies.js"
"""Generated from the service's table of currencies, so that the page uses the same data."""

CSP = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    b"connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""The page may run its own scripts and connect to its own service. Inline code is forbidden."""

_MEDIA_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_MAX_PATH = 100
_FOLDER = Path(__file__).parent / "page"
_is_plain_path = re.compile(r"[a-z0-9_-]+(?:/[a-z0-9_-]+)*(?:\.[a-z0-9_]+)+").fullmatch


class PageFile(NamedTuple):
    """A file of the page."""

    body: bytes
    compressed: bytes
    """The body, compressed with gzip."""
    media_type: bytes
    etag: bytes


def find_file(path: str) -> PageFile | None:
    """Find a file of the page, such as `js/main.js`. Other files are never found."""
    if len(path) > _MAX_PATH or _is_plain_path(path) is None:  # a plain path has no ".." parts
        return None
    if path == CURRENCIES:
        return _currencies()
    place = _plotly() if path == PLOTLY else _FOLDER / path
    if place.suffix not in _MEDIA_TYPES or not place.is_file():
        return None
    return _read(place, place.stat().st_mtime_ns)


@lru_cache(1)
def _plotly() -> Path:
    """Return the path of Plotly's script without importing the package, which is slow."""
    found = find_spec("plotly")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "package_data" / PLOTLY


@lru_cache(256)
def _read(place: Path, changed: int) -> PageFile:
    """Read a file, or return the cached one if it has not changed."""
    return _file(place.read_bytes(), place.suffix)


@lru_cache(1)
def _currencies() -> PageFile:
    """Return the table of currencies as a JavaScript module."""
    known = {code: {"sign": s, "digits": d} for code, (s, d) in known_currencies().items()}
    lines = (
        "// The currencies that the service knows, from CLDR.",
        f"export const CURRENCIES = {json.dumps(known)};",
        f"export const NO_CURRENCY = {json.dumps(NO_CURRENCY)};",
    )
    return _file("\n".join(lines).encode(), ".js")


def _file(body: bytes, suffix: str) -> PageFile:
    return PageFile(
        body,
        gzip.compress(body, 6, mtime=0),
        _MEDIA_TYPES[suffix],
        b'"%b"' % sha256(body).hexdigest()[:32].encode(),
    )
