"""The sentences, files and command line of `entice plan`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from command_line import RunEntice, assert_error, plain
from plan_fixtures import (
    add_payment,
    forecast_of,
    forecast_of_ten,
    make_plan,
    outcome,
    round_robin,
)

import entice
from entice.planner.assumptions import describe_assumptions
from entice.planner.belief import Spread, StarCounts
from entice.planner.forecast import forecast
from entice.planner.formatting import (
    format_confidence,
    format_money,
    format_run_share,
    policy_names,
    round_up,
)
from entice.planner.outcome import NEVER, Outcome
from entice.planner.spec import Plan
from entice.planner.summary_text import drift_note, headline, policy_sentence, summary_sentences

ROOT = Path(__file__).parents[2]

# Sentences


def test_the_summary_of_a_plan_with_a_budget() -> None:
    def thompson(i: int) -> Outcome:
        return outcome(
            needed=4137.0 if i < 9 else 9000.0, spend=2000.0, budget_day=6.0 if i < 7 else 9.0
        )

    found = forecast_of_ten(thompson, policies=[entice.ThompsonSampling()], budget=2000)
    assert summary_sentences(found) == [
        "Thompson sampling: 9 runs in 10 need at most 4,200 in payments; "
        "with 2,000 you stop exploring on day 6.",
        "In no run does a wrong item lead at the end.",
    ]


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ([NEVER] * 10, "€50 lasts to the end."),
        ([NEVER] * 7 + [3.0] * 3, "€50 runs out in 3 runs in 10."),
        ([NEVER] * 4 + [3.0, 4.0, 5.0, 5.0, 5.0, 5.0], "with €50 you stop exploring on day 5."),
    ],
)
def test_the_headline_states_how_long_the_budget_lasts(days: list[float], expected: str) -> None:
    found = forecast_of_ten(
        lambda i: outcome(needed=40.0, spend=40.0, budget_day=days[i]),
        policies=[entice.UCB()], budget=50, currency="€",
    )  # fmt: skip
    assert headline(found) == f"UCB: 9 runs in 10 need at most €40 in payments; {expected}"


def test_the_summary_without_a_budget_states_when_the_best_item_leads() -> None:
    found = forecast_of_ten(
        lambda i: outcome(needed=123.4, spend=123.4, lead_day=4.0 + i),
        lambda i: outcome(stars_lost=600.0, lead_day=NEVER if i < 4 else 1.0),
    )
    assert headline(found) == (
        "UCB: 9 runs in 10 need at most 130 in payments; in the median run the best item leads "
        "permanently from day 8."
    )
    free = "No payments: nothing is spent; in 4 runs in 10 a wrong item leads at the end."
    assert policy_sentence(found, 1) == free
    assert summary_sentences(found)[1] == (
        "It is recommended because its payments plus lost stars cost less than 130 in "
        "9 runs in 10. The others: No payments 1,200."
    )


def test_the_risk_is_not_repeated_if_it_is_in_the_headline() -> None:
    found = forecast_of_ten(
        lambda i: outcome(needed=1.0, spend=1.0, stars_lost=500.0),
        lambda i: outcome(stars_lost=100.0, lead_day=NEVER if i < 3 else 1.0),
    )
    sentences = summary_sentences(found)
    assert sentences[0].startswith(
        "No payments: nothing is spent; in 3 runs in 10 a wrong item leads"
    )
    assert sum("wrong item" in sentence for sentence in sentences) == 1


def test_a_close_call_is_reported() -> None:
    close = forecast_of_ten(
        lambda i: outcome(stars_lost=10.0 + i % 3, lead_day=NEVER if i == 0 else 1.0),
        lambda i: outcome(stars_lost=10.0 + (i + 1) % 3),
        policies=[entice.EpsilonGreedy(c=5), entice.EpsilonGreedy(c=2)],
    )
    text = " ".join(summary_sentences(close))
    assert "This is a close call: ε-greedy (c = 2) may be as good. Use more runs to decide." in text
    clear = forecast_of_ten(lambda i: outcome(), lambda i: outcome(stars_lost=10.0))
    assert "close call" not in " ".join(summary_sentences(clear))


EQUAL = entice.EqualPay(horizon=100)


@pytest.mark.parametrize(
    ("weak", "strong", "choice"),
    [
        ((10, 20), (10, 20), "choose Equal pay in both cases"),
        ((20, 10), (30, 20), "choose UCB in both cases"),
        ((20, 10), (20, 40), "choose UCB if the drift is known to be that weak, and otherwise "
         "Equal pay"),
        ((40, 20), (10, 12), "choose Equal pay if the drift is known to be that strong, and "
         "otherwise UCB"),
        ((10, 10), (20, 40), "choose either of them if the drift is known to be that weak, and "
         "otherwise Equal pay"),
    ],
)  # fmt: skip
def test_equal_pay_is_compared_under_weak_and_strong_drift(
    weak: tuple[float, float], strong: tuple[float, float], choice: str
) -> None:
    slopes = [0.2] * 10 + [0.8] * 10
    by_run = []
    for run, (equal, other) in enumerate([weak] * 10 + [strong] * 10):
        noise = [run % 3, (run + 1) % 3] if equal == other else [0, 0]  # a close call
        costs = equal + noise[0], other + noise[1]
        by_run.append([outcome(stars_lost=float(cost)) for cost in costs])
    found = forecast_of(by_run, slopes, policies=[EQUAL, entice.UCB()])
    [note] = drift_note(found)
    assert note.endswith(f"So {choice}.")
    assert note.startswith("If a payment worth one star raises ratings by less than 0.5 stars")
    assert re.search(r"Equal pay \d+ and UCB \d+; if by more: Equal pay \d+ and UCB \d+\.", note)
    assert summary_sentences(found)[-1] == note


def test_without_two_drifts_or_two_kinds_of_policies_there_is_nothing_to_compare() -> None:
    by_run = [[outcome(), outcome()] for _ in range(40)]
    slopes = [0.2, 0.8] * 20
    assert drift_note(forecast_of(by_run, slopes, policies=[EQUAL, entice.UCB()]))
    for policies in ([entice.UCB(), entice.Greedy()], [EQUAL, entice.EqualPay()]):
        assert drift_note(forecast_of(by_run, slopes, policies=policies)) == []
    assert drift_note(forecast_of(by_run, policies=[EQUAL, entice.UCB()], drift=0.5)) == []
    few = forecast_of(by_run[:12], slopes[:12], policies=[EQUAL, entice.UCB()])
    assert drift_note(few) == []  # six runs do not show a limit that nine in ten stay under


def test_numbers_are_formatted_for_people() -> None:
    assert [round_up(x) for x in (4137, 4200, 0.123, 9.99, 10.1, 99_001)] == [
        4200, 4200, 0.13, 10, 11, 100_000,
    ]  # fmt: skip
    for amount in np.random.default_rng(0).uniform(0.01, 1e6, 1000):
        assert amount <= round_up(float(amount)) <= max(1.11 * amount, amount + 0.011)
    assert [format_confidence(x) for x in (0.9, 0.95, 0.99, 0.8, 0.75, 0.5, 0.93)] == [
        "9 runs in 10", "19 runs in 20", "99 runs in 100", "4 runs in 5", "3 runs in 4",
        "half of all runs", "93 runs in 100",
    ]  # fmt: skip
    assert format_confidence(0.9123) == "91.23 % of all runs"
    assert [format_run_share(x) for x in (0.1475, 0.15, 0.949)] == [
        "1 run in 7", "2 runs in 10", "all but 1 run in 20",
    ]  # fmt: skip
    euros, crowns = make_plan(currency="€"), make_plan(currency="SEK")
    assert [format_money(euros, x) for x in (0, 0.5, 12, 1234.5)] == [
        "€0",
        "€0.50",
        "€12",
        "€1,234",
    ]
    assert format_money(crowns, 2000) == "2,000 SEK"


def test_policies_have_different_names() -> None:
    names = policy_names(
        make_plan(
            policies=[
                entice.ThompsonSampling(), entice.ThompsonSampling(scale="std"),
                entice.EpsilonGreedy(c=5), entice.EpsilonGreedy(c=2.5), entice.Greedy(),
                entice.EqualPay(horizon=100), entice.EqualPayElimination(horizon=100),
            ]
        )
    )  # fmt: skip
    assert names[:2] == ["Thompson sampling", "Thompson Sampling (scale=std)"]
    assert names[2:5] == ["ε-greedy (c = 5)", "ε-greedy (c = 2.5)", "No payments"]
    assert names[5:] == ["Equal pay", "Equal-pay elimination"]
    assert len(set(names)) == 7
    assert policy_names(make_plan(policies=[entice.Greedy()], overlap=0.1)) == [
        "Visitors' own choice"
    ]


def test_assumptions_are_described() -> None:
    text = " ".join(describe_assumptions(make_plan(currency="€")))
    assert "3 items. Their true averages are around 4.1 stars, two in three of them within" in text
    assert "40 visitors a day for 5 days" in text
    assert "50 % of them rate it, immediately. A rating is awaited for 30 days; later ones" in text
    assert "€2 for each star" in text
    assert "All visitors accept such an offer." in text
    assert "by 0 to 1 stars, all equally likely" in text
    other = make_plan(
        spread=None, star_counts=StarCounts(path="x/counts.csv", category="tea"), drift=0.5,
        unrated_shows=3, close_enough=0, policy_sees="zero_to_one",
        acceptance=entice.LogisticAcceptance(midpoint=0.1, width=0.1),
    )  # fmt: skip
    text = " ".join(describe_assumptions(other))
    assert "Each run draws its items of category tea from counts.csv." in text
    assert (
        "Half of them accept an offer of 0.1 stars (0.20), nine in ten an offer of 0.32 stars."
        in text
    )
    assert "drawn at random" not in text
    drawn = " ".join(describe_assumptions(make_plan(policies=[entice.UCB()], overlap=0.05)))
    assert "In 5 % of the decisions the item is drawn at random" in drawn
    assert "by 0.5 stars." in text
    assert "an unrated item to have 3 stars" in text
    assert "as 0 to 1" in text
    eager = make_plan(
        spread=Spread(centre=4.8, width=0.5, shape="uniform"),
        acceptance=entice.LogisticAcceptance(midpoint=-0.1, width=0.1),
    )
    text = " ".join(describe_assumptions(eager))
    assert "between 4.3 and 5 stars" in text
    assert "73.1 % accept the smallest offer" in text
    counted = make_plan(
        spread=None, star_counts=StarCounts(counts=[[1, 1, 1, 1, 1]] * 3),
        acceptance=entice.TableAcceptance(payments=[0, 0.5], shares=[0.34, 0.86]),
    )  # fmt: skip
    text = " ".join(describe_assumptions(counted))
    assert "the distribution given their star counts" in text
    assert "34 % accept an offer of 0 stars or less, 86 % an offer of 0.5 stars or more." in text
    limited = make_plan(
        budget=100, currency="€", margin=0.05, cap_per_offer=2, cap_per_player=1, pace_over=5000,
        probe=entice.Probe(share=0.1, amount=[0.1, 0.3]), rating_window=3600, late_ratings=False,
        rating_delay=entice.ExponentialDelay(mean=0.5),
    )  # fmt: skip
    text = " ".join(describe_assumptions(limited))
    assert "rate it, 12 hours later on average. A rating is awaited for 1 hour; later ones" in text
    assert "are rejected. " in text
    assert "€0.05 is added to every payment. No visitor is offered more than €1." in text
    assert "The budget is spread over 5,000 offers. In 10 % of the offers of a visitor's" in text
    assert "a coin toss decides whether 0.1 or 0.3 stars are added" in text
    for delay, words in (
        (2.0, "2 days later"),
        (entice.LogNormalDelay(median=3, sigma=1), "half of them within 3 days"),
        (entice.TableDelay(ages=[0, 7], shares=[0.5, 1]), "all of them within 7 days"),
    ):
        assert words in " ".join(describe_assumptions(make_plan(rating_delay=delay)))


def test_the_assumption_about_who_rates_is_described() -> None:
    """The log-odds are −2 and 2 without payment, 1 more with it."""
    by_payment = entice.LogisticResponse(-3, by_reward=1, by_payment=1)
    text = " ".join(describe_assumptions(make_plan(share_who_rate=1.0, response=by_payment)))
    assert (
        "Of those whose experience is worth 1 star, 11.9 % rate it, of those with 5 stars 88.1 % "
        "(if paid the worth of a star, 26.9 % and 95.3 %), immediately." in text
    )
    by_reward = entice.LogisticResponse(-3, by_reward=1)
    text = " ".join(describe_assumptions(make_plan(share_who_rate=1.0, response=by_reward)))
    assert "88.1 %, immediately." in text


# Files


def test_a_forecast_is_saved_as_json_figure_and_page(tmp_path: Path) -> None:
    found = forecast(make_plan(budget=5.0, currency="$"))
    found.save(tmp_path / "new")
    files = {p.name for p in (tmp_path / "new").iterdir()}
    assert files == {"plan.json", "plan.png", "plan.html"}
    kept = json.loads((tmp_path / "new" / "plan.json").read_text())
    assert kept["answer"] == summary_sentences(found)
    assert kept["recommended"] == found.recommended.label
    assert kept["budget_for_confidence"] == found.required_budget
    assert Plan.from_plain(kept["plan"]) == found.plan
    assert len(kept["days"]) == 2 * 5
    spend = [r for r in kept["summary"] if r["policy"] == "UCB" and r["quantity"] == "needed"]
    assert spend[0]["at_confidence"] == found.at_confidence(0, "needed")
    assert (tmp_path / "new" / "plan.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("plain")
def test_the_page_escapes_names_and_is_self_contained(tmp_path: Path) -> None:
    hostile = entice.CustomPolicy(
        round_robin, update=add_payment, memory=1, params=[9.0],
        name="<script>alert('x')</script> & $a$ ${b}",
    )  # fmt: skip
    found = forecast(make_plan(policies=[hostile], currency="$", budget=5.0, share_who_rate=1.0))
    found.save(tmp_path)
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; $a$ ${b}" in page
    assert re.findall(r"(?:src|href)=[\"'](?!data:)", page) == []
    assert "url(" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in page
    assert "$setting" not in page


def test_the_figure_shows_names_and_amounts_as_plain_text() -> None:
    figure = forecast_of_ten(
        lambda i: outcome(needed=9.0, spend=9.0, needed_by_day=np.arange(5) * 2.0),
        lambda i: outcome(stars_lost=50.0 if i < 2 else 1.0),
        budget=5.0, currency="$",
    ).plot()  # fmt: skip
    costs, needs, leads = figure.axes
    assert [label.get_text() for label in costs.get_yticklabels()] == ["UCB", "No payments"]
    texts = [text.get_text() for text in costs.texts]
    assert texts[:2] == ["$9", "→ $100"]  # outside the axis, which ends at the other policies
    assert "budget $5" in [text.get_text() for text in needs.texts]
    assert needs.get_xlim() == (0, 5)
    assert len(leads.lines) == 2


def test_a_plan_without_payments_can_be_plotted() -> None:
    found = forecast_of_ten(lambda i: outcome(), policies=[entice.Greedy()])
    found.plot().savefig("/dev/null", format="png")
    assert "No payments: nothing is spent" in str(found)
    assert repr(found) == "<Forecast: 1 policies × 10 runs × 5 days, seed 7>"


# The command


SMALL = """\
arms = 3
visitors_a_day = 40
days = 5
price_of_a_star = 2.00
currency = "€"
share_who_rate = 0.5
drift = [0, 1]
budget = 3
replications = 20
seed = 7
spread = { centre = 4.1, width = 0.45 }
policies = [{ kind = "ucb" }, { kind = "greedy" }]
"""


def test_the_command_prints_the_table_and_the_summary(
    run_entice: RunEntice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    Path("plan.toml").write_text(SMALL)
    ran = run_entice("plan", "plan.toml")
    assert ran.code == 0
    found = forecast(Plan.from_toml(SMALL))
    text = plain(ran.out)
    for sentence in summary_sentences(found):
        assert sentence in text
    assert "200 visitors in 5 days, 20 runs." in text
    assert "Seed 7." in text
    assert "…" not in ran.out
    assert list(Path().iterdir()) == [Path("plan.toml")]  # nothing is saved without --out


def test_the_command_saves_its_output(run_entice: RunEntice) -> None:
    Path("plan.toml").write_text(SMALL)
    ran = run_entice("plan", "plan.toml", "--out", "out", "--seed", "11", "--threads", "1")
    assert ran.code == 0
    assert "Page: out/plan.html" in plain(ran.out)
    assert {p.name for p in Path("out").iterdir()} == {"plan.json", "plan.png", "plan.html"}
    assert json.loads(Path("out/plan.json").read_text())["plan"]["seed"] == 11


def test_the_command_reports_errors_and_writes_nothing(run_entice: RunEntice) -> None:
    assert_error(run_entice("plan", "nowhere.toml"), "the plan file can't be read")
    Path("plan.toml").write_text(SMALL.replace("days = 5", "day = 5"))
    assert_error(run_entice("plan", "plan.toml", "--out", "out"), "Did you mean 'days'?")
    Path("plan.toml").write_text(SMALL)
    assert_error(run_entice("plan", "plan.toml", "--seed", "-1"), "Plan: seed must be from 0")
    assert_error(run_entice("plan", "plan.toml", "--threads", "0"), "threads must be at least 1")
    Path("file").touch()
    assert_error(run_entice("plan", "plan.toml", "--out", "file"), "must be writable")
    assert not Path("out").exists()


def test_an_interrupted_command_writes_nothing(
    run_entice: RunEntice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("entice.planner.runner.PlanRunner.run_all", interrupted)
    Path("plan.toml").write_text(SMALL)
    ran = run_entice("plan", "plan.toml", "--out", "out")
    assert ran.code == 130
    assert "Interrupted. Nothing was saved." in plain(ran.err)
    assert not Path("out").exists()


def test_the_example_runs_and_matches_the_docs() -> None:
    given = Plan.from_file(ROOT / "examples" / "marketplace.toml")
    page = (ROOT / "docs" / "how-to" / "plan.md").read_text()
    shown = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    assert Plan.from_toml(shown[1]) == given
    few = msgspec.structs.replace(given, replications=20)
    assert forecast(few).runs.height == 100
