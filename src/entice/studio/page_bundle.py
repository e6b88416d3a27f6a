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
from entice.studio import docs_site

HOME = "index.html"
PLOTLY = "plotly.min.js"
"""Served from the plotly package."""
CURRENCIES = "js/currencies.js"
"""Generated from the service's table of currencies, so that the page uses the same data."""
SITE = "js/site.js"
"""Generated: where the documentation is, if it is built."""
DOCS = "docs/"
"""The documentation, beside the page."""

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
_DOCS_MEDIA_TYPES = _MEDIA_TYPES | {
    ".ipynb": b"application/x-ipynb+json",
    ".png": b"image/png",
    ".webp": b"image/webp",
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
    csp: bytes = CSP


def find_file(path: str) -> PageFile | None:
    """Find a file of the page, such as `js/main.js`, or of the documentation, `docs/index.html`.

    Other files are never found.
    """
    if path.startswith(DOCS):
        found = docs_site.find(path.removeprefix(DOCS))
        return None if found is None else _docs_file(found)
    if len(path) > _MAX_PATH or _is_plain_path(path) is None:  # a plain path has no ".." parts
        return None
    if path == CURRENCIES:
        return _currencies()
    if path == SITE:
        site = "" if docs_site.folder() is None else f"/studio/{DOCS}"
        return _file(f"export const SITE = {json.dumps(site)};\n".encode(), ".js")
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


def _docs_file(place: Path) -> PageFile:
    """Read a file of the documentation. It is not cached: there are 40 MB, and few readers."""
    body = place.read_bytes()
    found = _file(body, place.suffix)
    return found._replace(csp=docs_site.content_security_policy(body))


def _file(body: bytes, suffix: str) -> PageFile:
    return PageFile(
        body,
        gzip.compress(body, 6, mtime=0),
        _DOCS_MEDIA_TYPES.get(suffix, b"application/octet-stream"),
        b'"%b"' % sha256(body).hexdigest()[:32].encode(),
    )
