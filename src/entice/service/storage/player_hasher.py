"""Keyed hashes of players' ids. The secret is stored outside the database."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import tempfile
from hashlib import blake2b
from pathlib import Path

from entice.errors import EnticeError, InputError
from entice.service.storage.row_checksums import RowChecksums, seal_rows
from entice.service.storage.store import Store

VARIABLE = "ENTICE_SECRET"
_CHECK = "secret_check"


class WrongSecret(EnticeError):
    """The secret differs from the one with which this database's players were hashed."""


class PlayerHasher:
    """Hashes players' ids with a secret, without which the hashes cannot be reproduced.

    >>> players = PlayerHasher(bytes(32))
    >>> players.hash("c_one", "ann") == players.hash("c_one", "ann")
    True
    >>> players.hash("c_one", "ann") == players.hash("c_two", "ann")
    False
    """

    def __init__(self, secret: bytes) -> None:
        self._player = blake2b(key=secret, digest_size=16, person=b"entice player")
        self._lookup = blake2b(key=secret, digest_size=16, person=b"entice lookup")
        self._request = blake2b(key=secret, digest_size=16, person=b"entice request")
        self._check = blake2b(key=secret, digest_size=16, person=b"entice check")
        self._webhook = blake2b(key=secret, digest_size=32, person=b"entice webhook")
        self.rows = RowChecksums(secret)
        """The checksums of rows that no event log covers."""

    def hash(self, campaign: str, player: str) -> bytes:
        """Hash a player's id. The same player has a different hash in each campaign.

        The database stores a hash of this and the player's salt: see `player_salts`.
        """
        hasher = self._player.copy()
        hasher.update(f"{campaign}\0{player}".encode())
        return hasher.digest()

    def lookup(self, campaign: str, player: str) -> bytes:
        """Hash a player's id in another way, to find the player's salt in a campaign."""
        hasher = self._lookup.copy()
        hasher.update(f"{campaign}\0{player}".encode())
        return hasher.digest()

    def digest(self, method: str, path: str, body: bytes) -> bytes:
        """Hash a request, to detect a different one with the same idempotency key.

        The hash is keyed because a body contains a player's id, which could be guessed from a
        plain hash.
        """
        hasher = self._request.copy()
        hasher.update(f"{method} {path}\n".encode())
        hasher.update(body)
        return hasher.digest()

    def webhook_secret(self, webhook: str) -> str:
        """Return the secret that signs the requests of a webhook, given by its id.

        It is derived, so that a copy of the database does not contain it.
        """
        hasher = self._webhook.copy()
        hasher.update(webhook.encode())
        return f"whsec_{hasher.hexdigest()}"

    def check_value(self) -> bytes:
        """Return a value that identifies the secret without revealing it."""
        return self._check.digest()


def player_hasher_for(store: Store, secret_file: Path | None = None) -> PlayerHasher:
    """Return the hasher of a database; raise `WrongSecret` if the secret is not the database's.

    With SQLite the secret is in `<database>.secret`, created at first use. With PostgreSQL it is in
    the environment variable ENTICE_SECRET or in a file, since several machines must share it.
    """
    expected = _stored_check_value(store)
    players = PlayerHasher(_secret(store, secret_file, may_create=expected is None))
    if expected is None:
        with store.write() as session:
            session.run(
                "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
                (_CHECK, players.check_value()),
            )
        expected = _stored_check_value(store)
    _check_secret(players, expected or b"")
    seal_rows(store, players.rows)
    return players


def known_player_hasher(store: Store, secret_file: Path | None = None) -> PlayerHasher | None:
    """Return the hasher of a database, or None if the secret is not here. Changes nothing."""
    path = secret_file_of(store.url)
    expected = _stored_check_value(store)
    if secret_file is None and not os.environ.get(VARIABLE) and not (path and path.exists()):
        return None
    if expected is None:  # a database that has not been served yet has no such rows either
        return None
    players = PlayerHasher(_secret(store, secret_file, may_create=False))
    _check_secret(players, expected)
    return players


def _check_secret(players: PlayerHasher, expected: bytes) -> None:
    if not hmac.compare_digest(expected, players.check_value()):
        raise WrongSecret(
            "The secret is not the one with which the players of this database were hashed: every "
            "player would count as new. Provide the original secret: the file <database>.secret "
            f"beside a SQLite database, {VARIABLE}, or --secret-file."
        )


def _stored_check_value(store: Store) -> bytes | None:
    with store.read() as session:
        rows = session.rows("SELECT value FROM meta WHERE name = ?", (_CHECK,))
    return bytes(rows[0][0]) if rows else None


def _secret(store: Store, secret_file: Path | None, *, may_create: bool) -> bytes:
    if secret_file is not None:
        return _read(secret_file)
    if given := os.environ.get(VARIABLE):
        return _bytes_of(VARIABLE, given)
    path = secret_file_of(store.url)
    if path is None:
        raise InputError(
            "the secret for players' ids",
            f"must be given for PostgreSQL, in {VARIABLE} or --secret-file",
            todo="Create one with: python -c 'import secrets; print(secrets.token_hex(32))'. Store "
            "it like a password, and give it to every server of this database.",
        )
    if not path.exists():
        if not may_create:
            raise WrongSecret(
                f"The secret of this database is missing: there is no {path}. Without it every "
                "player would count as new. Restore the file, or provide the secret in "
                f"{VARIABLE} or with --secret-file."
            )
        _create(path)
    return _read(path)


def secret_file_of(url: str) -> Path | None:
    """Return the path of a SQLite database's secret; None for other databases."""
    if not url.startswith("sqlite:///"):
        return None
    path = Path(url.removeprefix("sqlite:///"))
    return path.with_name(path.name + ".secret")


def _create(path: Path) -> None:
    """Create a secret atomically; if another process was first, keep its secret."""
    handle, name = tempfile.mkstemp(
        dir=path.parent, prefix=".secret-"
    )  # readable only by this user
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
        reason = getattr(error, "strerror", None) or "not a text file"
        raise InputError(
            "the secret file", f"cannot be read ({reason})", given=str(path)
        ) from error


def _bytes_of(where: str, text: str) -> bytes:
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        secret = b""
    if len(secret) != 32:
        raise InputError(
            where,
            "must hold 32 bytes as 64 hexadecimal digits",
            todo="Create one with: python -c 'import secrets; print(secrets.token_hex(32))'",
        )
    return secret
