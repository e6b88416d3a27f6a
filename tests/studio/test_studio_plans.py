"""Plans and the reproduction as JSON: the same numbers as on the command line."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any

import pytest
from service_fixtures import Service, service
from studio_fixtures import PLAN, parse_lines
from studio_worker import REPLICATIONS

from entice.paper.reproduce import measure, reproduce
from entice.planner.belief import Spread
from entice.planner.forecast import Forecast, forecast
from entice.planner.forecast import plan as make_plan
from entice.planner.spec import Plan
from entice.planner.summary_text import summary_sentences
from entice.policies import UCB, EliminationRace, Greedy
from entice.service.domain.from_plan import campaigns
from entice.service.domain.spec import CampaignSpec
from entice.studio.jobs import paper_data
from entice.studio.jobs.paper_data import reproduction_payload
from entice.studio.jobs.plan import MAX_SAMPLES, forecast_payload


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("studio")) as created:
        yield created


def small_forecast(**changes: Any) -> Forecast:
    return make_plan(
        **{
            "arms": 3, "spread": Spread(4.0, 0.5), "visitors_a_day": 20, "days": 5,
            "price_of_a_star": 2.0, "drift": 0.5, "replications": 20, "seed": 1,
            "policies": [UCB(), Greedy()], "progress": False, **changes,
        }
    )  # fmt: skip


def test_a_plan_equals_that_of_the_command_line(api: Service) -> None:
    body = {**PLAN, "budget": 20}
    response = api.client.post("/v1/plans", json=body)
    lines = parse_lines(response.text)
    assert lines[0]["kind"] == "queued"
    progress = [line for line in lines if line["kind"] == "progress"]
    assert (progress[-1]["done"], progress[-1]["total"]) == (40, 40)
    found = lines[-1]
    assert found["kind"] == "forecast"
    known = forecast(Plan.from_plain(body), progress=False)
    assert found["sentences"] == summary_sentences(known)
    assert found["sentence"] == summary_sentences(known)[0]
    assert found["order"] == known.ranking
    assert found["budget_for_confidence"] == known.required_budget
    assert Plan.from_toml(found["toml"]) == known.plan
    kept = json.loads(known.to_json())
    for row in kept["summary"]:
        if row["quantity"] in ("spend", "stars_lost", "cost", "needed"):
            summary = found["policies"][row["policy_index"]][row["quantity"]]
            for name in ("mean", "q05", "q50", "q95", "at_confidence"):
                assert summary[name] == pytest.approx(row[name])
    for p, policy in enumerate(found["policies"]):
        assert policy["recommended"] == (p == known.ranking[0])
        assert policy["samples"] == sorted(known.run_values(p, "needed"))
        enough = sum(needed <= 20 for needed in policy["samples"]) / 40
        assert policy["chance_enough"] == pytest.approx(enough)
        assert policy["stuck"] == known.run_values(p, "stuck").mean()
        assert policy["days"]["leads"] == known.days.filter(policy_index=p)["leads"].to_list()


def test_a_campaign_is_created_as_planned(api: Service) -> None:
    response = api.client.post("/v1/plans", json={**PLAN, "budget": 123.45})
    found = parse_lines(response.text)[-1]
    recommended = next(p["label"] for p in found["policies"] if p["recommended"])
    assert found["campaigns"][recommended]["planned_drift"] == PLAN["drift"][1]
    created = api.client.post("/v1/campaigns", json=found["campaigns"][recommended])
    assert created.status_code == 201, created.text
    campaign = created.json()
    assert (campaign["budget"], campaign["currency"]) == (123_45, "EUR")
    assert campaign["spec"]["price_of_a_star"] == 200
    assert len(campaign["spec"]["arms"]) == 4
    assert campaign["spec"]["unrated_shows"] == 4.1
    offer = api.offer(campaign["id"], "ann")
    assert offer["state"] == "offered"


@pytest.mark.usefixtures("plain")
def test_policies_that_the_service_cannot_run_have_no_campaign() -> None:
    found = campaigns(small_forecast(policies=[UCB(), EliminationRace(horizon=100)]))
    assert list(found) == ["UCB"]
    for body in found.values():
        CampaignSpec.from_plain(body)


def test_a_plan_without_a_budget_gets_the_needed_one() -> None:
    known = small_forecast(currency="¥", price_of_a_star=300)
    body = campaigns(known)["UCB"]
    assert body["currency"] == "JPY"
    assert body["price_of_a_star"] == 300  # yen have no smaller unit
    assert body["budget"] >= known.at_confidence(0, "needed")
    assert campaigns(known)["No payments"]["budget"] == 0


def test_a_plan_with_too_many_arms_has_no_campaign() -> None:
    assert campaigns(small_forecast(arms=1500, visitors_a_day=2, days=1, replications=10)) == {}


@pytest.mark.usefixtures("untraced")
def test_samples_are_limited_and_span_the_same_range() -> None:
    known = small_forecast(replications=1000)
    samples = forecast_payload(known)["policies"][0]["samples"]
    assert len(samples) == MAX_SAMPLES
    needed = sorted(known.run_values(0, "needed"))
    assert (samples[0], samples[-1]) == (needed[0], needed[-1])
    assert samples == sorted(samples)


# The paper


def test_the_paper_is_reproduced_once(api: Service) -> None:
    first = api.client.get("/v1/paper")
    lines = parse_lines(first.text)
    assert lines[0]["kind"] == "queued"
    assert any(line["kind"] == "progress" for line in lines)
    found = lines[-1]
    assert (found["kind"], found["seed"], found["replications"]) == ("paper", 7, REPLICATIONS)
    assert len(found["table1"]) == len(found["table2"]) == 2 * 3 * 7 * 2
    assert {row["inside"] for row in found["table1"]} == {True, False}
    assert sum(row["published"] for row in found["coverage"]) == 2 * 63
    again = api.client.get("/v1/paper")
    assert again.headers["content-type"] == "application/x-ndjson"
    assert parse_lines(again.text) == [found]


def test_the_paper_is_reproduced_with_the_defaults_of_the_command_line() -> None:
    defaults = inspect.signature(reproduce).parameters
    assert paper_data.REPLICATIONS == defaults["replications"].default == 1000
    assert paper_data.SEED == 7


def test_the_paper_as_json_equals_the_reproduction() -> None:
    known = measure(5, seed=3, horizon=60, progress=False)
    found = reproduction_payload(known)
    assert found["table1"] == known.table1.to_dicts()
    assert found["greedy"]["stuck_on_0.9"] == known.greedy["stuck_on_0.9"][0]
    curves = found["figures"]["figure_3"]
    assert {(c["policy"], c["metric"]) for c in curves} == {
        (policy, metric)
        for policy in ("ucb", "epsilon_greedy", "thompson_sampling")
        for metric in ("regret", "compensation")
    }
    assert all(len(c["t"]) == len(c["q50"]) == 60 and c["l"] == 1.1 for c in curves)
    assert [len(spread["regret"]) for spread in found["lock_in"]] == [5, 5]
    assert {run["setup"] for run in found["ran"]} == {"written", "published"}
