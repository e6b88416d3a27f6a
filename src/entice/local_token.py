"""The token of a service without API keys, in a file that only the user who runs it can read.

`entice serve` writes the file, which is named after its address; `entice.client` and curl read it
from there. It contains the header to send, for `curl -H @FILE`.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from ipaddress import ip_address
from pathlib import Path

import platformdirs

from entice.errors import InputError

_HEADER = re.compile(r"Authorization: Bearer (entice_local_[\w-]{43})\n?")


def token_file(host: str, port: int) -> Path:
    """Return the path of the token for an address, in ENTICE_STATE_DIR or the user's state folder.

    >>> from entice.local_token import token_file
    >>> token_file("localhost", 8000).name
    '127.0.0.1-8000.token'
    """
    chosen = os.environ.get("ENTICE_STATE_DIR")
    folder = Path(chosen) if chosen else Path(platformdirs.user_state_dir("entice", False))
    return folder / f"{'127.0.0.1' if host == 'localhost' else host}-{port}.token"


def read_token(host: str, port: int) -> str | None:
    """Return the token for an address; None if there is none, or if others can read it."""
    if not _is_loopback(host):
        return None
    try:
        with token_file(host, port).open(encoding="ascii") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or status.st_mode & 0o077:
                return None
            found = _HEADER.fullmatch(file.read(200))
    except (OSError, UnicodeDecodeError):
        return None
    return found[1] if found is not None else None


def create_token(host: str, port: int) -> str:
    """Return the token for an address, created if there is none, so that a restart keeps it."""
    if (existing := read_token(host, port)) is not None:
        return existing
    token, path = f"entice_local_{secrets.token_urlsafe(32)}", token_file(host, port)
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(f"Authorization: Bearer {token}\n")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            "the token file",
            f"cannot be written ({error.strerror})",
            given=str(path),
            todo="Set ENTICE_STATE_DIR to a folder that you can write to, or create a key: "
            "entice keys create --role admin --name me",
        ) from error
    return token


def remove_token(host: str, port: int) -> None:
    """Remove the token for an address, if there is one."""
    with contextlib.suppress(OSError):  # also a folder that this user cannot enter
        token_file(host, port).unlink()


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
