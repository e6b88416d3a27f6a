"""The built documentation, which the studio links to: `make docs` writes it to `docs/_build`."""

from __future__ import annotations

import base64
import os
import re
from hashlib import sha256
from pathlib import Path

VARIABLE = "ENTICE_DOCS"
_CHECKOUT = Path(__file__).parents[3] / "docs" / "_build"
_MAX_PATH = 200
# No part of a path starts with a dot, so none is "..", and Sphinx's own files are not served.
_is_plain_path = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)*", re.ASCII).fullmatch
_INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


def folder() -> Path | None:
    """Return the folder of the site: ENTICE_DOCS, or that of the checkout; None if not built."""
    chosen = Path(os.environ.get(VARIABLE) or _CHECKOUT)
    return chosen if (chosen / "index.html").is_file() else None


def find(path: str) -> Path | None:
    """Find a file of the site, such as `how-to/plan.html`. Other files are never found."""
    site = folder()
    if site is None or len(path) > _MAX_PATH or _is_plain_path(path) is None:
        return None
    place = site / path
    return place if place.is_file() else None


def content_security_policy(body: bytes) -> bytes:
    """Return the policy of a page: its own scripts, and the inline ones that it has now.

    The theme sets the colours in an inline script, which is allowed by its hash, and writes styles
    into the page. Nothing is loaded from other hosts.
    """
    hashes = [
        b"'sha256-%b'" % base64.b64encode(sha256(script).digest())
        for script in _INLINE_SCRIPT.findall(body)
    ]
    return (
        b"default-src 'none'; script-src 'self' %b; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; "
        b"base-uri 'none'; frame-ancestors 'none'" % b" ".join(dict.fromkeys(hashes))
    )
