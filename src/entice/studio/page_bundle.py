"""The files of the page, ready to be sent: compressed once, and named by their content."""

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
"""Comes with the package plotly."""
CURRENCIES = "js/currencies.js"
"""Made from the table of currencies, so that page and service have the same. All other files are
our own."""

CSP = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    b"connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""What the page may do: run its own scripts and talk to its own service. Nothing inline."""

_MEDIA_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_LONGEST = 100
_FOLDER = Path(__file__).parent / "page"
_plain = re.compile(r"[a-z0-9_-]+(?:/[a-z0-9_-]+)*(?:\.[a-z0-9_]+)+").fullmatch


class File(NamedTuple):
    """A file of the page."""

    body: bytes
    compressed: bytes
    """By gzip."""
    media_type: bytes
    etag: bytes


def find(path: str) -> File | None:
    """Find a file of the page, such as `js/main.js`. Nothing else can be found."""
    if len(path) > _LONGEST or _plain(path) is None:  # no way out of the folder is plain
        return None
    if path == CURRENCIES:
        return _currencies()
    place = _plotly() if path == PLOTLY else _FOLDER / path
    if place.suffix not in _MEDIA_TYPES or not place.is_file():
        return None
    return _read(place, place.stat().st_mtime_ns)


@lru_cache(1)
def _plotly() -> Path:
    """Where Plotly's script is; looking does not import the package, which takes its time."""
    found = find_spec("plotly")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "package_data" / PLOTLY


@lru_cache(256)
def _read(place: Path, changed: int) -> File:
    """Read a file; again only if it has changed since."""
    return _file(place.read_bytes(), place.suffix)


@lru_cache(1)
def _currencies() -> File:
    """Write the table of currencies as a module."""
    known = {code: {"sign": s, "digits": d} for code, (s, d) in known_currencies().items()}
    lines = (
        "// The currencies that the service knows: by CLDR, as it comes with Babel.",
        f"export const CURRENCIES = {json.dumps(known)};",
        f"export const NO_CURRENCY = {json.dumps(NO_CURRENCY)};",
    )
    return _file("\n".join(lines).encode(), ".js")


def _file(body: bytes, suffix: str) -> File:
    return File(
        body,
        gzip.compress(body, 6, mtime=0),
        _MEDIA_TYPES[suffix],
        b'"%b"' % sha256(body).hexdigest()[:32].encode(),
    )
