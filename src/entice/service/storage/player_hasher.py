"""Who a player is stays with the shop: the service keeps keyed hashes, and the key apart."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import tempfile
from hashlib import blake2b
from pathlib import Path

from entice.errors import EnticeError, InputError
from entice.service.storage.store import Store

VARIABLE = "ENTICE_SECRET"
_CHECK = "secret_check"


class WrongSecret(EnticeError):
    """The secret is not the one that this database's players were hashed with."""


class PlayerHasher:
    """Turns ids of players into hashes that mean nothing without the secret.

    >>> players = Players(bytes(32))
    >>> players.hash("c_one", "ann") == players.hash("c_one", "ann")
    True
    >>> players.hash("c_one", "ann") == players.hash("c_two", "ann")
    False
    """

    def __init__(self, secret: bytes) -> None:
        self._player = blake2b(key=secret, digest_size=16, person=b"entice player")
        self._request = blake2b(key=secret, digest_size=16, person=b"entice request")
        self._check = blake2b(key=secret, digest_size=16, person=b"entice check")

    def hash(self, campaign: str, player: str) -> bytes:
        """Hash a player's id; the same player is another one in another campaign."""
        told = self._player.copy()
        told.update(f"{campaign}\0{player}".encode())
        return told.digest()

    def digest(self, method: str, path: str, body: bytes) -> bytes:
        """Hash a request, to tell another one under the same idempotency key.

        With the key too: a body holds the id of a player, and a plain hash of it could be guessed.
        """
        told = self._request.copy()
        told.update(f"{method} {path}\n".encode())
        told.update(body)
        return told.digest()

    def check_value(self) -> bytes:
        """A value that tells one secret from another, and nothing more."""
        return self._check.digest()


def player_hasher_for(store: Store, secret_file: Path | None = None) -> PlayerHasher:
    """Find the secret of a database, or make one at first use, and check that it is the right one.

    SQLite: in `<database>.secret`, made at first use. PostgreSQL: in the environment variable
    ENTICE_SECRET or a file, since several machines must share it.
    """
    known = _known_check(store)
    players = PlayerHasher(_secret(store, secret_file, may_make=known is None))
    if known is None:
        with store.write() as session:
            session.run(
                "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
                (_CHECK, players.check_value()),
            )
        known = _known_check(store)
    if not hmac.compare_digest(known or b"", players.check_value()):
        raise WrongSecret(
            "The secret is not the one that the players of this database were hashed with: each "
            "would be taken for a new one. Give the secret that was used before; it is kept beside "
            f"a SQLite database as <database>.secret, or in {VARIABLE} or --secret-file."
        )
    return players


def _known_check(store: Store) -> bytes | None:
    with store.read() as session:
        rows = session.rows("SELECT value FROM meta WHERE name = ?", (_CHECK,))
    return bytes(rows[0][0]) if rows else None


def _secret(store: Store, secret_file: Path | None, *, may_make: bool) -> bytes:
    if secret_file is not None:
        return _read(secret_file)
    if given := os.environ.get(VARIABLE):
        return _bytes_of(VARIABLE, given)
    beside = secret_file_of(store.url)
    if beside is None:
        raise InputError(
            "the secret for players' ids",
            f"must be given for this database, in {VARIABLE} or --secret-file",
            todo="Make one with: python -c 'import secrets; print(secrets.token_hex(32))', keep it "
            "as you keep passwords, and give it to every server of this database.",
        )
    if not beside.exists():
        if not may_make:
            raise WrongSecret(
                f"The secret of this database is missing: there is no {beside}. Without it every "
                "player would be taken for a new one. Bring it back from where it was kept, or "
                f"give it in {VARIABLE} or with --secret-file."
            )
        _make(beside)
    return _read(beside)


def secret_file_of(url: str) -> Path | None:
    """Return where the secret of a database is kept; None if that is not up to us."""
    if not url.startswith("sqlite:///"):
        return None
    path = Path(url.removeprefix("sqlite:///"))
    return path.with_name(path.name + ".secret")


def _make(path: Path) -> None:
    """Write a new secret whole or not at all; whoever comes first wins."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".secret-")  # readable by us alone
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path) -> bytes:
    try:
        return _bytes_of(str(path), path.read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InputError("the secret file", f"can't be read ({reason})", given=str(path)) from error


def _bytes_of(where: str, text: str) -> bytes:
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        secret = b""
    if len(secret) != 32:
        raise InputError(
            where,
            "must hold 32 bytes as 64 hexadecimal digits",
            todo="Make one with: python -c 'import secrets; print(secrets.token_hex(32))'",
        )
    return secret
