"""What a campaign page reads: the history of settings, the plan, and the offers of a period."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from service_fixtures import Service, assert_problem, service

from entice.service.http.examples import PLAN
from entice.service.operations.verify import verify
from entice.service.storage import settings_history, spending


def changes(shop: Service, campaign: str) -> list[dict[str, Any]]:
    """Return the history of settings, once the whole log is read."""
    while True:
        found = shop.client.get(f"/v1/campaigns/{campaign}/settings").json()
        if found["through"] == found["events"]:
            listed: list[dict[str, Any]] = found["changes"]
            return listed


def test_the_history_of_settings_says_who_when_from_what_to_what(tmp_path: Path) -> None:
    with service(tmp_path) as shop:
        campaign = shop.campaign()
        path = f"/v1/campaigns/{campaign}"
        before = datetime.now(UTC)
        admin = shop.bearer("admin")
        for body in ({"budget": 75_000}, {"budget": 75_000}, {"cap_per_offer": None, "name": "B"}):
            shop.client.patch(path, json=body, headers=admin)
        shop.client.headers.update(admin)
        shop.offer(campaign, "ann")
        shop.client.post(f"{path}/arms", json={"arms": ["hojicha"]})
        shop.client.patch(f"{path}/arms/hojicha", json={"retired": True})
        found = changes(shop, campaign)
        rows = [(c["setting"], c["arm"], c["before"], c["after"]) for c in found]
        assert rows == [
            ("retired", "hojicha", False, True),
            ("arms", None, None, ["hojicha"]),
            ("cap_per_offer", None, 400, None),
            ("name", None, "Teas", "B"),
            ("budget", None, 50_000, 75_000),
            ("created", None, None, None),
        ]
        assert [c["by_name"] for c in found] == ["admin"] * 5 + [None]
        assert found[0]["by"] in admin["authorization"]
        assert found[-1]["by"] is None
        assert all(datetime.fromisoformat(c["at"]) >= before for c in found[:-1])
        assert_problem(shop.client.get("/v1/campaigns/c_none/settings"), 404)


def test_a_long_history_of_settings_is_read_in_parts_and_bounded(
    shop: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spending, "MAX_READ", 1)
    monkeypatch.setattr(settings_history, "MAX_CHANGES", 3)
    campaign = shop.campaign()
    for budget in (60_000, 61_000, 62_000, 63_000):
        shop.client.patch(f"/v1/campaigns/{campaign}", json={"budget": budget})
    first = shop.client.get(f"/v1/campaigns/{campaign}/settings").json()
    assert (first["through"], first["events"]) == (1, 5)
    assert [c["setting"] for c in first["changes"]] == ["created"]
    found = [(c["before"], c["after"]) for c in changes(shop, campaign)]
    assert found == [(62_000, 63_000), (61_000, 62_000), (60_000, 61_000)]


def test_a_campaign_remembers_its_plan(shop: Service) -> None:
    campaign = shop.campaign(plan=PLAN)
    view = shop.client.get(f"/v1/campaigns/{campaign}").json()
    assert "plan" not in view["spec"]  # the row of the campaign is written with every commit
    found = shop.client.get(f"/v1/campaigns/{campaign}/plan").json()
    assert found["plan"] == PLAN
    assert (found["currency"], found["currency_digits"]) == ("EUR", 2)
    shop.offer(campaign, "ann")
    verdict = next(verify(shop.store, campaign))
    assert verdict.fault is None
    without = shop.campaign()
    assert shop.client.get(f"/v1/campaigns/{without}/plan").json()["plan"] is None
    events = shop.client.get(f"/v1/campaigns/{without}/events").json()["events"]
    assert "plan" not in events[0]["body"]  # as in the logs of earlier versions


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"low": [1]}, "plan.low must have as many values as visitors, 3; got 1"),
        ({"typical": [3, 2, 4]}, "plan.typical must not decrease; got [3, 2, 4]"),
        ({"visitors": [300, 300, 400]}, "plan.visitors must not contain a number twice"),
        ({"drift": [1, 0]}, "plan.drift must be a range such as [0, 1]"),
        ({"policy": 5}, "plan must be a forecast as a plan returns it"),
        ({"colour": "red"}, "plan must be a forecast as a plan returns it"),
    ],
)
def test_an_invalid_plan_is_rejected(shop: Service, change: dict[str, Any], message: str) -> None:
    answer = shop.client.post(
        "/v1/campaigns",
        json={"name": "T", "arms": ["a", "b"], "budget": 1, "price_of_a_star": 1}
        | {"plan": PLAN | change},
    )
    assert message in assert_problem(answer, 422)["detail"]


def test_offers_and_spending_of_a_period(shop: Service) -> None:
    campaign = shop.campaign()
    path = f"/v1/campaigns/{campaign}"
    offers = [shop.offer(campaign, f"player {i}") for i in range(7)]
    times = [datetime.fromisoformat(offer["offered_at"]) for offer in offers]
    tick = timedelta(microseconds=1)

    def listed(**params: Any) -> list[int]:
        found: list[int] = []
        before: dict[str, int] = {}
        while True:
            page = shop.client.get(f"{path}/offers", params={"limit": 2, **params, **before}).json()
            found += [offer["decision"] for offer in page["offers"]]
            if page["next"] is None:
                return found
            before = {"before": page["next"]}

    for since in [None, times[0] - tick, *times, times[-1] + tick]:
        for until in [None, times[0], times[3], times[6] + tick]:
            if since is not None and until is not None and until < since:
                continue
            given = {"since": since, "until": until}
            params = {name: time.isoformat() for name, time in given.items() if time}
            expected = [
                i + 1
                for i, at in enumerate(times)
                if (since is None or at >= since) and (until is None or at <= until)
            ]
            assert listed(**params) == expected[::-1], params
    arm = offers[4]["arm"]
    later = listed(since=times[2].isoformat(), arm=arm)
    assert later == [i + 1 for i in range(6, 1, -1) if offers[i]["arm"] == arm]

    whole = shop.client.get(f"{path}/spending", params={"by": "offer"}).json()
    since = times[3].isoformat()
    part = shop.client.get(f"{path}/spending", params={"by": "offer", "since": since}).json()
    assert part["offers"] == [n for n in whole["offers"] if n >= 4]
    until = shop.client.get(
        f"{path}/spending", params={"by": "offer", "until": since, "points": 3}
    ).json()
    assert (until["offers"][0], until["offers"][-1], len(until["offers"])) == (0, 4, 3)
    for name in ("reserved", "at"):
        kept = dict(zip(whole["offers"], whole[name], strict=True))
        for view in (part, until):
            assert view[name] == [kept[n] for n in view["offers"]]

    for rest in ("offers", "spending"):
        wrong = {"since": times[3].isoformat(), "until": times[2].isoformat()}
        detail = assert_problem(shop.client.get(f"{path}/{rest}", params=wrong), 422)["detail"]
        assert "until must not be before since" in detail
        detail = assert_problem(shop.client.get(f"{path}/{rest}?since=soon"), 422)["detail"]
        assert "since" in detail
