"""Amounts in five currencies: in Python, over HTTP, on the command line, and in plans."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command_line import RunEntice, assert_error, plain
from currencies import CASES, IDS, Case
from plan_fixtures import forecast_of_ten, outcome
from service_fixtures import TEAS, Service, assert_problem, service
from studio_fixtures import PLAN, parse_lines
from writer_fixtures import Service as Writer
from writer_fixtures import service as writer

import entice
from entice import money
from entice.planner.assumptions import describe_assumptions
from entice.planner.forecast import Forecast
from entice.planner.forecast_table import table_columns
from entice.planner.summary_text import headline
from entice.service.domain.from_plan import campaigns
from entice.service.operations.verify import verify

__all__ = ["writer"]

every = pytest.mark.parametrize("case", CASES, ids=IDS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("money")) as made:
        yield made


def make_forecast(case: Case, **changes: Any) -> Forecast:
    """Return a forecast in which every run needs eleven stars."""
    spent = 11 * case.price
    return forecast_of_ten(
        lambda i: outcome(needed=spent, spend=spent),
        **{
            "policies": [entice.UCB()], "currency": case.written, "budget": case.budget,
            "price_of_a_star": case.price, **case.own, **changes,
        },
    )  # fmt: skip


# Python


@every
def test_a_plan_becomes_a_campaign_with_the_same_amounts(case: Case) -> None:
    campaign = campaigns(make_forecast(case))["UCB"]
    assert campaign["budget"] == case.budget_units
    assert campaign["price_of_a_star"] == case.price_units
    assert (campaign["currency"], campaign["currency_digits"]) == (case.code, case.digits)


def test_the_sufficient_budget_is_rounded_up_to_the_smallest_unit() -> None:
    yen, dinar = (next(case for case in CASES if case.code == code) for code in ("JPY", "KWD"))
    needed = forecast_of_ten(
        lambda i: outcome(needed=1.2, spend=1.2), policies=[entice.UCB()], currency="JPY",
        price_of_a_star=yen.price,
    )  # fmt: skip
    assert campaigns(needed)["UCB"]["budget"] == 2
    needed = forecast_of_ten(
        lambda i: outcome(needed=0.0012, spend=0.0012), policies=[entice.UCB()], currency="KWD",
        price_of_a_star=dinar.price,
    )  # fmt: skip
    assert campaigns(needed)["UCB"]["budget"] == 2  # 0.002 KWD; cents would have made it 0.010


AMOUNTS = {
    "JPY": ("¥3,300", "¥40,000"),
    "HUF": ("8,800 HUF", "40,000 HUF"),
    "KWD": ("6.400 KWD", "250 KWD"),
    "EUR": ("€22", "€123"),
    "POINTS": ("1,700 POINTS", "12,500 POINTS"),
}
"""The amount that 9 runs in 10 stay under, rounded up to two digits, and the budget."""


@every
def test_a_plan_uses_the_digits_of_its_currency(case: Case) -> None:
    found = make_forecast(case)
    enough, budget = AMOUNTS[case.code]
    assert headline(found) == (
        f"UCB: 9 runs in 10 need at most {enough} in payments; {budget} lasts to the end."
    )
    exact = money.Currency(case.code, case.digits).format_major(11 * case.price)
    assert table_columns(found)[0].cells == [(exact, exact)]
    assert table_columns(found)[-1].title == f"{budget} lasts until"
    price = case.price_text if case.price < 100 else case.price_text.replace(".00", "")
    assert f"{price} for each star" in " ".join(describe_assumptions(found.plan))
    costs, needs, _ = found.plot().axes
    assert enough in [text.get_text() for text in costs.texts]
    assert f"budget {budget}" in [text.get_text() for text in needs.texts]
    ticks = [label.get_text() for label in needs.get_yticklabels()]
    assert len(set(ticks)) == len(ticks)


@every
def test_axis_labels_of_the_figure_do_not_overlap(case: Case) -> None:
    spent = 1800 * case.price
    figure = forecast_of_ten(
        lambda i: outcome(needed=spent, spend=spent), policies=[entice.UCB()],
        currency=case.written, price_of_a_star=case.price, **case.own,
    ).plot()  # fmt: skip
    costs, needs, _ = figure.axes
    named = "" if case.code in ("JPY", "EUR") else case.code
    assert (costs.get_xlabel(), needs.get_ylabel()) == (named, named)
    boxes = [label.get_window_extent() for label in costs.get_xticklabels() if label.get_text()]
    assert len(boxes) >= 2
    assert all(one.x1 < next_one.x0 for one, next_one in pairwise(boxes))


def test_the_figure_marks_no_half_yen() -> None:
    yen = next(case for case in CASES if case.code == "JPY")
    found = make_forecast(yen, price_of_a_star=1, budget=1)
    ticks = [label.get_text() for label in found.plot().axes[1].get_yticklabels()]
    assert len(set(ticks)) == len(ticks)


# HTTP


@every
def test_the_service_sends_units_with_their_digits(server: Service, case: Case) -> None:
    request = {
        **PLAN, "currency": case.written, "price_of_a_star": case.price, "budget": case.budget,
        "policies": [{"kind": "ucb"}], **case.own,
    }  # fmt: skip
    found = parse_lines(server.client.post("/v1/plans", json=request).text)[-1]
    assert (found["plan"]["currency"], found["plan"]["currency_digits"]) == (case.code, case.digits)
    made = server.client.post("/v1/campaigns", json=found["campaigns"]["UCB"])
    assert made.status_code == 201, made.text
    view = server.client.get(f"/v1/campaigns/{made.json()['id']}").json()
    assert (view["currency"], view["currency_digits"]) == (case.code, case.digits)
    assert (view["budget"], view["free"]) == (case.budget_units, case.budget_units)
    assert view["spec"]["price_of_a_star"] == case.price_units
    assert view["spec"]["currency_digits"] == case.digits  # in the log: CLDR may change
    offer = server.offer(view["id"], "ann")
    assert (offer["currency"], offer["currency_digits"]) == (case.code, case.digits)
    grown = server.client.get(f"/v1/campaigns/{view['id']}/spending").json()
    assert (grown["currency"], grown["currency_digits"]) == (case.code, case.digits)
    rows = server.client.get(f"/v1/campaigns/{view['id']}/export?format=jsonl")
    [row] = parse_lines(rows.text)
    assert (row["amount"], row["currency"], row["currency_digits"]) == (
        offer["amount"], case.code, case.digits,
    )  # fmt: skip
    trusted = server.client.get("/v1/trust").json()["campaigns"]
    detail = next(c for c in trusted if c["id"] == view["id"])["invariants"][0]["detail"]
    assert case.budget_text in detail
    response = server.client.patch(f"/v1/campaigns/{view['id']}", json={"budget": 10**16})
    assert_problem(response, 422)


def test_rejections_show_amounts_in_units_of_the_currency(server: Service) -> None:
    campaign = server.campaign(
        currency="KWD", probe={"share": 1, "amount": 0.5}, price_of_a_star=1000, cap_per_offer=None
    )
    offers = [server.offer(campaign, str(i)) for i in range(12)]
    paid = next(offer for offer in offers if offer["amount"])
    response = server.client.post(f"/v1/offers/{paid['id']}/accept", json={"amount": 501})
    detail = assert_problem(response, 422)["detail"]
    assert detail == "amount must be from 0 to 500 (0.500 KWD), as offered; got 501."
    server.client.post(f"/v1/offers/{paid['id']}/accept", json={})
    reserved = server.client.get(f"/v1/campaigns/{campaign}").json()["reserved"]
    response = server.client.patch(f"/v1/campaigns/{campaign}", json={"budget": 1})
    detail = assert_problem(response, 409)["detail"]
    assert detail == (
        f"budget must be at least {500 + reserved}: 0.500 KWD is spent and "
        f"{reserved / 1000:.3f} KWD is reserved for open offers; got 1 (0.001 KWD)."
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"currency": "JPY", "budget": 1000.5}, "JPY has no smaller unit; got 1000.5. Write 1000"),
        ({"currency": "KWD", "budget": 250.5}, "For 250.500 KWD write 250500."),
        ({"currency": "EURO"}, "Did you mean EUR?"),
        ({"currency": "POINTS"}, "set currency_digits to the number of its decimals"),
        ({"currency": "EUR", "currency_digits": 0}, "must be 2 for EUR, as in CLDR; got 0"),
    ],
)
def test_the_service_rejects_invalid_amounts(
    server: Service, changes: dict[str, Any], message: str
) -> None:
    response = server.client.post("/v1/campaigns", json={**TEAS, **changes})
    assert message in assert_problem(response, 422)["detail"]


# Recorded amounts


def test_campaigns_recorded_without_digits_open_and_verify(writer: Writer) -> None:
    before = {code: writer.create(currency=code) for code in ("POINTS", "EUR", "KWD", "JPY")}
    for code, digits in (("POINTS", 2), ("EUR", 2), ("KWD", 3), ("JPY", 0)):
        campaign = before[code]
        view = writer.queries.campaign(campaign)
        assert (view.currency, view.currency_digits) == (code, digits)
        assert "currency_digits" not in view.spec
        assert writer.rated(campaign, 1, 4)["currency_digits"] == digits
        assert writer.faults(campaign) == [None]


def test_another_version_of_cldr_changes_no_recorded_amount(
    server: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = server.campaign(currency="KWD")
    other = {**money.known_currencies(), "KWD": ("", 2)}
    monkeypatch.setattr(money, "known_currencies", lambda: other)
    assert server.client.get(f"/v1/campaigns/{campaign}").json()["currency_digits"] == 3
    server.offer(campaign, "ann")
    assert [verdict.fault for verdict in verify(server.store, campaign)] == [None]


# The command line


@every
def test_the_command_line_prints_amounts_and_complete_ids(
    run_entice: RunEntice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    spec = {
        "name": f"Teas of the month, paid in {case.code}", "arms": ["oolong", "sencha"],
        "budget": case.budget_units, "currency": case.code, "price_of_a_star": case.price_units,
        **case.own,
    }  # fmt: skip
    (tmp_path / "spec.toml").write_text(
        "\n".join(f"{name} = {msgspec.json.encode(value).decode()}" for name, value in spec.items())
    )
    made = run_entice("campaign", "create", "spec.toml")
    assert f"budget {case.budget_text}, price of a star {case.price_text}" in plain(made.err)
    campaign = made.out.strip()
    assert re.fullmatch("c_[0-9a-f]{16}", campaign)
    listed = run_entice("campaign", "list").out
    line = next(line for line in listed.splitlines() if campaign in line)
    assert line.rstrip().endswith(case.budget_text)
    assert "…" not in listed
    assert f"paid in {case.code}" in plain(listed)
    for narrow in ("40", "20"):  # lines are then longer than the window
        monkeypatch.setenv("COLUMNS", narrow)
        listed = run_entice("campaign", "list").out
        assert any(campaign in line and case.budget_text in line for line in listed.splitlines())
    run_entice("keys", "create", "--role", "read", "--name", "a" * 100, "--campaign", campaign)
    assert campaign in run_entice("keys", "list").out


def test_the_command_line_rejects_invalid_amounts(run_entice: RunEntice, tmp_path: Path) -> None:
    spec = 'name = "x"\narms = ["a", "b"]\nprice_of_a_star = 200\n'
    (tmp_path / "spec.toml").write_text(f'{spec}budget = 1000.5\ncurrency = "JPY"\n')
    assert_error(run_entice("campaign", "create", "spec.toml"), "Write 1000 or 1001.")
    (tmp_path / "spec.toml").write_text(f'{spec}budget = 1000\ncurrency = "EURO"\n')
    assert_error(run_entice("campaign", "create", "spec.toml"), "Did you mean EUR?")


@every
def test_the_plan_on_the_command_line(run_entice: RunEntice, tmp_path: Path, case: Case) -> None:
    digits = f"currency_digits = {case.digits}\n" if case.own else ""
    (tmp_path / "plan.toml").write_text(
        f"arms = 3\nvisitors_a_day = 40\ndays = 5\nprice_of_a_star = {case.price}\n{digits}"
        f'currency = "{case.written}"\ndrift = [0, 1]\nbudget = {case.budget}\nseed = 7\n'
        "replications = 20\nspread = { centre = 4.1, width = 0.45 }\n"
        'policies = [{ kind = "ucb" }, { kind = "greedy" }]\n'
    )
    text = plain(run_entice("plan", "plan.toml").out)
    _, budget = AMOUNTS[case.code]
    assert f"{budget} lasts until" in text
    amounts = re.findall(r"[¥€]?\d[\d,.]*\d(?: (?:HUF|KWD|POINTS))?", text)
    decimals = {len(figure.partition(".")[2].split()[0]) for figure in amounts if "." in figure}
    assert decimals <= {1, case.digits}  # one decimal: the share of lost stars
