"""The secret of the hashes of player ids."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from entice.errors import InputError
from entice.service.storage.player_hasher import WrongSecret, player_hasher_for
from entice.service.storage.store import open_store


def test_the_secret_is_created_once_with_private_permissions(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'e.db'}")
    players = player_hasher_for(store)
    file = tmp_path / "e.db.secret"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert re.fullmatch("[0-9a-f]{64}", file.read_text().strip())
    assert player_hasher_for(store).hash("c", "p") == players.hash("c", "p")
    assert file.read_text().strip().encode() not in (tmp_path / "e.db").read_bytes()
    kept = file.read_text()
    file.unlink()
    with pytest.raises(WrongSecret, match="missing"):
        player_hasher_for(store)
    file.write_text("ab" * 32)
    with pytest.raises(WrongSecret, match="not the one"):
        player_hasher_for(store)
    file.write_text("too short")
    with pytest.raises(InputError, match="64 hexadecimal digits"):
        player_hasher_for(store)
    other = tmp_path / "elsewhere"
    other.write_text(kept)
    assert player_hasher_for(store, other).hash("c", "p") == players.hash("c", "p")
    store.close()


def test_postgresql_requires_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'e.db'}")
    monkeypatch.setattr(store, "url", "postgresql://somewhere/entice")
    with pytest.raises(InputError, match="ENTICE_SECRET"):
        player_hasher_for(store)
    monkeypatch.setenv("ENTICE_SECRET", "12" * 32)
    player_hasher_for(store)
    monkeypatch.setenv("ENTICE_SECRET", "34" * 32)
    with pytest.raises(WrongSecret):
        player_hasher_for(store)
    store.close()
