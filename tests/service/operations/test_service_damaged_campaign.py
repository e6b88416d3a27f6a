"""One damaged campaign: the service starts, serves the others, and says what is wrong."""

from __future__ import annotations

import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from command_line import RunEntice
from service_fixtures import assert_problem, service

from entice.service import logs
from entice.service.domain.campaign_state import CampaignState
from entice.service.domain.errors import DamagedCampaign
from entice.service.storage import writer
from entice.service.storage.store import Session
from entice.service.storage.unit_of_work import load_all_states

DAMAGES = {
    "state": "state = substr(state, 2)",
    "an amount that a CHECK excludes": "committed = budget + 1",
    "id": "id = id || 'x'",
}


@pytest.fixture(params=list(DAMAGES))
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A database with a damaged campaign and an intact one; return their ids."""
    with service(tmp_path) as shop:
        one, other = shop.campaign(), shop.campaign()
        shop.offer(one, "ann")  # which maintenance looks at, once it expires
        shop.offer(other, "ann")
    with closing(sqlite3.connect(tmp_path / "entice.db", isolation_level=None)) as database:
        database.execute("PRAGMA ignore_check_constraints = ON")
        database.execute("UPDATE offers SET due = 1 WHERE campaign = 1")
        database.execute(f"UPDATE campaigns SET {DAMAGES[request.param]} WHERE id = ?", (one,))
        (one,) = database.execute("SELECT id FROM campaigns WHERE number = 1").fetchone()
    return one, other


def test_a_damaged_campaign_does_not_affect_the_others(
    damaged: tuple[str, str], tmp_path: Path, run_entice: RunEntice
) -> None:
    one, other = damaged
    target = io.BytesIO()
    logs.configure(target)
    with service(tmp_path) as shop:
        client = shop.client
        assert client.get("/readyz").status_code == 200
        for answer in (
            client.get(f"/v1/campaigns/{one}"),
            client.get(f"/v1/campaigns/{one}/export"),
            client.post(f"/v1/campaigns/{one}/offers", json={"player": "bob"}),
        ):
            problem = assert_problem(answer, 503, "out-of-order")
            assert one in problem["detail"]
            assert "Other campaigns are served." in problem["detail"]
        shop.offer(other, "bob")
        assert [c["id"] for c in client.get("/v1/campaigns").json()] == [other]
        for send, expected in ((client.get, [other]), (client.delete, [other]), (client.get, [])):
            view = send("/v1/players/ann").json()
            assert view["damaged"] == [one]
            assert [each["campaign"] for each in view["campaigns"]] == expected
        assert "\nentice_campaigns_damaged 1.0\n" in client.get("/metrics").text
        assert client.get("/readyz").status_code == 200  # also after maintenance has run
        assert_problem(client.get("/v1/players/ann", headers=shop.bearer("read", one)), 503)
        everything = client.get("/v1/players/ann", headers=shop.bearer("read", other)).json()
        assert everything == {"campaigns": [], "damaged": []}
    logged = [json.loads(line) for line in target.getvalue().splitlines()]
    reasons = [line for line in logged if line["event"] == "damagedcampaign"]
    assert reasons[0]["during"] == "start"
    assert one in reasons[0]["detail"]
    ran = run_entice("verify")
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert "FAILED" in next(line for line in lines if line.startswith(f"{one}:"))
    assert "OK" in next(line for line in lines if line.startswith(f"{other}:"))


@pytest.mark.parametrize("damaged", ["state"], indirect=True)
def test_a_service_that_expects_intact_campaigns_would_not_start(
    damaged: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test above: `Writer.start` as it was before."""

    def load_strictly(session: Session) -> tuple[list[CampaignState], list[DamagedCampaign]]:
        states, errors = load_all_states(session)
        for error in errors:
            raise error
        return states, []

    monkeypatch.setattr(writer, "load_all_states", load_strictly)
    with pytest.raises(ExceptionGroup) as raised, service(tmp_path):
        pass
    assert raised.group_contains(DamagedCampaign, match=damaged[0])
