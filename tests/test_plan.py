"""`entice plan`: specs, what is believed, numbers by hand, sentences, files, the command."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from command_line import Entice, assert_told, plain

import entice
from entice.errors import InputError
from entice.planner.assumptions import assumptions
from entice.planner.belief import STARS, Spread, StarCounts, World, shares_with_means
from entice.planner.campaign import Campaign, Run, Worlds
from entice.planner.command import plan as plan_command
from entice.planner.forecast import Forecast, at_share, forecast, plan
from entice.planner.outcome import NEVER, Outcome, Rounds, budget_ends, outcome_of
from entice.planner.sentence import headline, of_policy, sentences
from entice.planner.spec import Plan
from entice.planner.words import money, names, rounded_up, runs_about, runs_within
from entice.principal.step import PLAYERS_CHOICE

ROOT = Path(__file__).parents[1]
COUNTED = """\
category,product,incentivized,stars_1,stars_2,stars_3,stars_4,stars_5
dryer,a,0,5,5,10,40,90
dryer,a,1,0,0,0,3,9
dryer,b,0,10,5,10,30,70
dryer,c,0,1,0,0,0,4
oven,d,0,20,10,20,40,60
"""
SPREAD = Spread(centre=4.1, width=0.45)
PAYING = (entice.UCB(), entice.Greedy())


def a_plan(**changes: Any) -> Plan:
    """A small plan: 3 items, 5 days of 40 visitors, two policies that compile together."""
    settings: dict[str, Any] = {
        "arms": 3, "spread": SPREAD, "visitors_a_day": 40, "days": 5, "price_of_a_star": 2.0,
        "share_who_rate": 0.5, "drift": (0.0, 1.0), "policies": PAYING, "replications": 20,
        "seed": 7,
    }  # fmt: skip
    return Plan(**settings | changes)


# Specs


def test_a_plan_survives_toml() -> None:
    acceptances = (
        entice.AlwaysAccept(),
        entice.LogisticAcceptance(midpoint=0.1, width=0.1),
        entice.TableAcceptance(payments=[0, 1], shares=[0.3, 0.9]),
    )
    for acceptance in acceptances:
        given = a_plan(acceptance=acceptance, budget=100, currency="€", policies=[entice.UCB()])
        assert Plan.from_toml(given.to_toml()) == given
    counted = a_plan(arms=None, spread=None, star_counts=StarCounts(counts=[[1, 0, 0, 2, 3]] * 2))
    assert Plan.from_toml(counted.to_toml()) == counted
    assert counted.arms == 2


def test_defaults_compare_the_papers_policies_with_no_payments() -> None:
    given = Plan(
        arms=2, spread=SPREAD, visitors_a_day=10, days=2, price_of_a_star=1, drift=0.5
    )  # a single number for the drift
    assert given.policies == (
        entice.UCB(), entice.ThompsonSampling(), entice.EpsilonGreedy(c=5), entice.Greedy(),
    )  # fmt: skip
    assert given.drift == (0.5, 0.5)
    assert given.confidence == 0.9


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arms": 1}, "Plan: arms must be a whole number of at least 2; got 1"),
        ({"arms": None}, "must say how many items there are"),
        ({"spread": None}, "must say what is believed of the items"),
        ({"star_counts": StarCounts(counts=[[1, 1, 1, 1, 1]] * 3)}, "or else by star_counts"),
        ({"spread": 0.4}, "Plan: spread must be a Spread"),
        (
            {"spread": None, "star_counts": StarCounts(counts=[[1, 1, 1, 1, 1]] * 2)},
            "as many as star_counts has rows, 2; got 3",
        ),
        ({"visitors_a_day": 0}, "visitors_a_day must be a whole number of at least 1"),
        ({"days": 3651}, "days must be at most 3,650"),
        ({"visitors_a_day": 10**6, "days": 100}, "at most 5,000,000; got 100000000"),
        ({"price_of_a_star": 0}, "price_of_a_star must be greater than 0"),
        ({"currency": 3}, "currency must be text of one line"),
        ({"currency": "a\nb"}, "currency must be text of one line"),
        ({"currency": "pieces of eight"}, "at most 12 characters"),
        ({"share_who_rate": 0}, "greater than 0 and at most 1"),
        ({"acceptance": 0.5}, "acceptance must be one of AlwaysAccept, Logistic"),
        ({"drift": [1, 0]}, "the lowest first"),
        ({"drift": [-1, 0]}, "must not be negative"),
        ({"drift": [0, 1, 2]}, "must be a pair"),
        ({"policies": []}, "at least one entry"),
        ({"policies": ["ucb"]}, "policies[0] must be one of UCB"),
        ({"policies": [entice.UCB(), entice.UCB()]}, "policies[1] is there twice"),
        ({"budget": 0}, "Leave it out to ask what it should be"),
        ({"confidence": 0.4}, "at least 0.5 and less than 1"),
        ({"confidence": 0.99}, "replications must be at least 100, so that a confidence of 0.99"),
        ({"unrated_shows": 6}, "from 1 to 5 stars"),
        ({"close_enough": -1}, "from 0 to 4 stars"),
        ({"policy_sees": "percent"}, 'must be "stars" or "zero_to_one"'),
        ({"seed": -1}, "seed must be from 0"),
    ],
)
def test_plans_that_cannot_be_are_told(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        a_plan(**changes)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Spread(centre=5, width=1), "centre must be more than 1.02 and less than 4.98"),
        (lambda: Spread(centre=4, width=0), "width must be more than 0"),
        (lambda: Spread(centre=4, width=1, shape="flat"), 'must be "normal" or "uniform"'),
        (lambda: StarCounts(), "must have either counts"),
        (lambda: StarCounts(counts=[[1, 2, 3]]), "lists of 5 numbers"),
        (lambda: StarCounts(counts=[[1, 2, 3, 4, -1]]), "must not be negative"),
        (lambda: StarCounts(counts=[[0, 0, 0, 0, 0]] * 2), "nor all be 0"),
        (lambda: StarCounts(path=3), "path must be text"),
        (lambda: StarCounts(counts=[[1, 1, 1, 1, 1]] * 2, category="a"), "needs a path"),
    ],
)
def test_beliefs_that_cannot_be_are_told(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        make()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("arms = ", "the plan must be TOML"),
        ("arm = 3", "unknown setting; got 'arm'. Did you mean 'arms'?"),
        ("arms = 3", "must have the setting 'visitors_a_day'"),
        ("spread = 3", "spread must be a table of settings"),
        ("spread = { centre = 4, breadth = 1 }", "spread has an unknown setting"),
        ('policies = [{ kind = "ucbb" }]', "policies[0]: kind is unknown; got 'ucbb'"),
        ('acceptance = { kind = "logistics" }', "Did you mean 'logistic'?"),
    ],
)
def test_misspelt_toml_is_told(text: str, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        Plan.from_toml(text)


# What is believed


def test_shares_have_the_wanted_means_and_are_as_even_as_these_allow() -> None:
    wanted = np.array([1.02, 2.0, 3.0, 4.1, 4.98])
    shares = shares_with_means(wanted)
    np.testing.assert_allclose(shares @ STARS, wanted, atol=1e-9)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    ratios = shares[:, 1:] / shares[:, :-1]  # largest entropy: a geometric row
    np.testing.assert_allclose(ratios, ratios[:, :1].repeat(4, axis=1), rtol=1e-6)


def test_spreads_are_spread_as_said() -> None:
    rng = np.random.default_rng(0)
    drawn = Spread(centre=3.5, width=0.4).drawing(4000).draw(rng) @ STARS
    # 4,000 draws: the mean errs by 0.0063, the width by 0.0045; five times that is one in a million
    assert drawn.mean() == pytest.approx(3.5, abs=0.032)
    assert drawn.std() == pytest.approx(0.4, abs=0.023)
    flat = Spread(centre=4.5, width=1, shape="uniform").drawing(4000).draw(rng) @ STARS
    assert flat.min() >= 3.5 - 1e-9
    assert 4.97 < flat.max() <= 4.98 + 1e-9
    near_the_end = Spread(centre=4.9, width=1.0).drawing(2000).draw(rng) @ STARS
    assert near_the_end.max() <= 4.98 + 1e-9
    assert len(np.unique(near_the_end.round(6))) > 1990  # drawn again, not cut off


def test_counts_leave_less_doubt_the_more_there_are() -> None:
    few, many = (
        StarCounts(counts=(np.array([[1, 0, 2, 3, 4], [0, 0, 1, 5, 4]]) * n).tolist()).drawing(2)
        for n in (1, 100)
    )
    means = {
        n: np.array([d.draw(np.random.default_rng(i)) @ STARS for i in range(300)])
        for n, d in ((1, few), (100, many))
    }
    assert means[1].std(axis=0).min() > 5 * means[100].std(axis=0).max()
    # 300 draws of a mean whose doubt is 0.04: the average errs by 0.0024, the prior pulls by 0.001
    np.testing.assert_allclose(means[100].mean(axis=0), [3.9, 4.3], atol=0.015)
    assert many.centre == pytest.approx(4.1)


def test_items_are_drawn_from_a_file_of_star_counts(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(COUNTED)
    drawing = StarCounts(path=str(path), category="dryer").drawing(2)
    assert drawing.counts.tolist() == [[5, 5, 10, 40, 90], [10, 5, 10, 30, 70]]
    assert drawing.centre == pytest.approx((15 + 20 + 60 + 280 + 800) / 275)
    assert drawing.draw(np.random.default_rng(0)).shape == (2, 5)
    assert len(StarCounts(path=str(path)).drawing(3).counts) == 3


@pytest.mark.parametrize(
    ("text", "changes", "words"),
    [
        (None, {}, "can't be read"),
        ("a,b\n1,2\n", {}, "stars_1, stars_2, stars_3, stars_4, stars_5 is missing"),
        ("stars_1,stars_2,stars_3,stars_4,stars_5\n1,2,3,4,x\n", {}, "must be whole numbers"),
        ("stars_1,stars_2,stars_3,stars_4,stars_5\n1,2,3,4,-1\n", {}, "must not be negative"),
        ("stars_1,stars_2,stars_3,stars_4,stars_5\n9,9,9,9,99\n", {}, "as the plan, 3, with 50"),
        (
            "stars_1,stars_2,stars_3,stars_4,stars_5\n1,1,1,1,1\n",
            {"category": "a"},
            "column 'category'",
        ),
        (
            "category,stars_1,stars_2,stars_3,stars_4,stars_5\nb,9,9,9,9,99\n",
            {"category": "a"},
            "category is unknown; got 'a'. There are: b.",
        ),
    ],
)
def test_files_that_say_nothing_are_told(
    text: str | None, changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "counts.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=re.escape(words)):
        StarCounts(path=str(path), **changes).drawing(3)


def test_paths_in_a_file_begin_at_its_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "counts.csv").write_text(
        "incentivized,stars_1,stars_2,stars_3,stars_4,stars_5\n"
        "0,5,5,10,30,50\n1,0,0,0,0,99\n0,5,5,20,40,30\n"
    )
    (tmp_path / "sub" / "plan.toml").write_text(
        "arms = 2\nvisitors_a_day = 10\ndays = 2\nprice_of_a_star = 1\ndrift = 0\n"
        'star_counts = { path = "counts.csv" }\n'
    )
    drawing = Plan.from_file(tmp_path / "sub" / "plan.toml").drawing()
    assert len(drawing.counts) == 2  # type: ignore[union-attr]  # paid ratings are not read


def test_every_run_has_a_world_of_its_own_and_all_policies_share_it() -> None:
    worlds = Worlds(a_plan(drift=(0.2, 0.8)))
    first, second = worlds.draw(0), worlds.draw(1)
    assert 0.2 <= first.slope <= 0.8
    assert first.slope != second.slope
    assert not np.allclose(first.means, second.means)
    np.testing.assert_array_equal(worlds.draw(0).shares, first.shares)
    found = forecast(a_plan(drift=(0.2, 0.8)))
    for column in ("slope", "best_mean"):
        np.testing.assert_array_equal(found.of(0, column), found.of(1, column))
    assert found.of(0, "slope")[0] == first.slope


# One run, by hand

MEANS = np.array([4.0, 3.5, 3.97])


def rounds(arm: list[int], leader: list[int], payment: list[float]) -> Rounds:
    return Rounds(np.array(arm), np.array(leader), np.array(payment), np.full(len(arm), math.nan))


def test_a_run_of_six_visitors_by_hand() -> None:
    given = a_plan(visitors_a_day=2, days=3, price_of_a_star=3.0, budget=None)
    run = rounds([0, 1, 2, 0, 1, 0], [1, 1, 1, 0, 2, 0], [0.5, 0, 0.25, 0, 0.5, 0])
    found = outcome_of(run, run, MEANS, given)
    assert found.spend == found.needed == pytest.approx(3.0 * 1.25)
    assert found.stars_lost == pytest.approx(0 + 0.5 + 0.03 + 0 + 0.5 + 0)
    assert found.share_lost == pytest.approx(1.03 / (6 * 4.0))
    # Item 2 is within 0.05 stars of the best: a best one leads from the fourth visitor, day 2.
    assert found.lead_day == 2
    assert found.leads_by_day.tolist() == [False, True, True]
    assert found.needed_by_day.tolist() == [1.5, 2.25, 3.75]
    assert found.budget_day == NEVER
    strict = outcome_of(run, run, MEANS, a_plan(visitors_a_day=2, days=3, close_enough=0))
    assert strict.lead_day == 3  # the fifth visitor sees item 2 in the lead; the sixth does not


def test_who_ends_on_a_wrong_item_never_led_for_good() -> None:
    run = rounds([0] * 6, [0, 0, 0, 0, 0, 1], [0.0] * 6)
    given = a_plan(visitors_a_day=2, days=3)
    assert outcome_of(run, run, MEANS, given).lead_day == NEVER
    always = rounds([0] * 6, [0] * 6, [0.0] * 6)
    assert outcome_of(always, always, MEANS, given).lead_day == 1


@pytest.mark.parametrize(
    ("budget", "end", "day"),
    [(1.0, 0, 1), (1.5, 2, 2), (2.2, 2, 2), (2.25, 4, 3), (3.74, 4, 3), (3.75, 6, NEVER)],
)
def test_the_budget_ends_with_the_first_payment_that_does_not_fit(
    budget: float, end: int, day: float
) -> None:
    given = a_plan(visitors_a_day=2, days=3, price_of_a_star=3.0, budget=budget)
    run = rounds([0] * 6, [0] * 6, [0.5, 0, 0.25, 0, 0.5, 0])
    assert budget_ends(run, given) == end
    assert outcome_of(run, run, MEANS, given).budget_day == day


def test_a_campaign_plays_what_a_trace_of_the_same_world_shows() -> None:
    """A cell that is moved to another world is the cell of that world."""
    given = a_plan(acceptance=entice.LogisticAcceptance(midpoint=0.1, width=0.1))
    campaign = Campaign(given)
    for run in (0, 3):
        world = campaign.worlds.draw(run)
        shown = entice.trace(
            replication=run,
            arms=entice.Empirical(values=STARS.tolist(), weights=world.shares.tolist()),
            policies=[entice.UCB()],
            drifts=[entice.LinearDrift(world.slope)],
            horizon=200,
            seed=7,
            cold_start="prior",
            prior=4.1,
            feedback_range=(1, 5),
            players=entice.Players(acceptance=given.acceptance, loss=0.5),
        )
        played, unlimited = campaign.rounds(0, run)
        assert played is unlimited  # there is no budget
        assert played.arm.tolist() == shown["arm"].to_list()
        assert played.leader.tolist() == shown["greedy_arm"].to_list()
        np.testing.assert_array_equal(played.payment, shown["payment"].to_numpy())


def test_payments_in_stars_do_not_depend_on_what_policies_see() -> None:
    """ε-greedy compares averages only: to it 0 to 1 is the same scale as 1 to 5 stars."""
    acceptances = (
        entice.LogisticAcceptance(midpoint=0.1, width=0.1),
        entice.TableAcceptance(payments=[0, 0.5], shares=[0.3, 0.9]),
    )
    for acceptance in acceptances:
        changes = {"policies": [entice.EpsilonGreedy(c=5)], "acceptance": acceptance}
        stars, unit = (
            forecast(a_plan(**changes, policy_sees=sees)) for sees in ("stars", "zero_to_one")
        )
        np.testing.assert_allclose(stars.of(0, "spend"), unit.of(0, "spend"), rtol=1e-9)
        np.testing.assert_allclose(stars.of(0, "stars_lost"), unit.of(0, "stars_lost"))
        assert stars.of(0, "spend").min() > 0


# Budgets


def by_turns(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    """Give each item its turn, until so many stars have been paid."""
    return t % len(pulls) if memory[0] <= params[0] else PLAYERS_CHOICE


def keep_account(memory, params, arm, payment, feedback):  # type: ignore[no-untyped-def]
    memory[0] += payment


def test_visitors_follow_the_averages_once_the_money_is_gone() -> None:
    """The end of a budget, against a policy that keeps its own accounts.

    Where everyone rates, a policy sees each payment, and can stop by itself. 400 worlds, the same
    for both; 4 standard errors of the difference are exceeded once in 16,000 seeds.
    """
    settings: dict[str, Any] = {"share_who_rate": 1.0, "replications": 400, "arms": 4, "days": 10}
    turns = entice.CustomPolicy(by_turns, update=keep_account, memory=1, params=[1e9])
    own = msgspec.structs.replace(turns, params=[5.0])
    limited = forecast(a_plan(**settings, policies=[turns], budget=2 * 5.0))
    alone = forecast(a_plan(**settings, policies=[own]))
    for column in ("stars_lost", "stuck"):
        difference = limited.of(0, column) - alone.of(0, column)
        error = difference.std() / math.sqrt(len(difference))
        assert abs(difference.mean()) < 4 * error, column
    assert limited.of(0, "spend").max() <= 10
    assert limited.of(0, "needed").min() > 10
    free = forecast(a_plan(**settings, policies=[turns]))
    assert limited.of(0, "stars_lost").mean() < 0.7 * free.of(0, "stars_lost").mean()
    np.testing.assert_array_equal(limited.of(0, "needed"), free.of(0, "spend"))


def test_no_payment_is_made_after_the_budget_is_used_up() -> None:
    campaign = Campaign(a_plan(budget=4.0))
    some = 0
    for run in range(10):
        played, unlimited = campaign.rounds(0, run)
        end = budget_ends(unlimited, campaign.plan)
        assert played.arm[:end].tolist() == unlimited.arm[:end].tolist()
        assert played.payment[end:].sum() == 0
        assert played.arm[end:].tolist() == played.leader[end:].tolist()
        some += end < 200
    assert some > 0


# All runs


def test_the_same_seed_gives_the_same_numbers_on_any_number_of_threads() -> None:
    one, two = (forecast(a_plan(budget=5.0), threads=threads) for threads in (1, 3))
    assert one.runs.equals(two.runs)
    assert one.days.equals(two.days)
    assert one.to_json() == two.to_json()
    other = forecast(a_plan(budget=5.0, seed=8))
    assert not one.runs.equals(other.runs)


def test_a_seed_is_drawn_and_told_when_none_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    found = plan(
        arms=3, spread=SPREAD, visitors_a_day=40, days=5, price_of_a_star=2, share_who_rate=0.5,
        drift=0.5, policies=PAYING, replications=10,
    )  # fmt: skip
    assert f"entice: seed {found.plan.seed} (drawn" in capsys.readouterr().err
    assert found.runs.height == 20


def test_progress_is_reported_run_by_run() -> None:
    told: list[tuple[int, int]] = []
    forecast(a_plan(), progress=lambda done, total: told.append((done, total)))
    assert told[0] == (0, 20)
    assert told[-1] == (20, 20)


def test_an_interrupted_plan_ends_its_threads() -> None:
    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        forecast(a_plan(replications=1000), progress=interrupt)


def test_money_is_payments_times_the_price() -> None:
    given = a_plan()
    found, campaign = forecast(given), Campaign(given)
    for run in range(5):
        played, _ = campaign.rounds(0, run)
        row = found.runs.row(run, named=True)
        assert row["spend"] == pytest.approx(2.0 * played.payment.sum())
        assert row["cost"] == pytest.approx(row["spend"] + 2.0 * row["stars_lost"])
        means = campaign.worlds.draw(run).means
        assert row["stars_lost"] == pytest.approx((means.max() - means[played.arm]).sum())
    dearer = forecast(msgspec.structs.replace(given, price_of_a_star=5.0))
    np.testing.assert_allclose(dearer.of(0, "spend"), 2.5 * found.of(0, "spend"))


def test_promises_are_quantiles_of_the_runs() -> None:
    found = forecast(a_plan())
    spend = np.sort(found.of(0, "spend"))
    assert found.promise(0, "spend") == spend[17]  # 18 of 20 runs do not exceed it
    assert found.typical(0, "spend") == spend[9]
    assert (spend <= found.promise(0, "spend")).mean() >= 0.9
    for share in (0.05, 0.5, 0.9, 0.95):
        expected = np.quantile(spend, share, method="inverted_cdf")
        assert at_share(spend, share) == expected
    row = found.summary().row(0, named=True)
    assert (row["policy"], row["quantity"]) == ("UCB", "spend")
    assert row["mean"] == pytest.approx(spend.mean())
    assert row["at_confidence"] == spend[17]


def outcome(**changes: Any) -> Outcome:
    settings: dict[str, Any] = {
        "spend": 0.0, "stars_lost": 0.0, "share_lost": 0.0, "lead_day": 1.0, "needed": 0.0,
        "budget_day": NEVER, "needed_by_day": np.zeros(5), "leads_by_day": np.ones(5, dtype=bool),
    }  # fmt: skip
    return Outcome(**settings | changes)


def made_up(by_run: list[list[Outcome]], **changes: Any) -> Forecast:
    """A forecast of runs that never were, for words and rules."""
    world = World(shares_with_means(np.array([4.0, 3.0, 3.5])), 0.5)
    given = a_plan(replications=len(by_run), **changes)
    return Forecast(given, [Run(world, outcomes) for outcomes in by_run])


def ten(*makers: Any, **changes: Any) -> Forecast:
    return made_up([[make(i) for make in makers] for i in range(10)], **changes)


def test_the_policy_with_the_lowest_cost_at_the_confidence_is_recommended() -> None:
    """UCB costs 30 always; no payments nothing in 8 runs, and 100 in two."""
    paying = lambda i: outcome(spend=10.0, needed=10.0, stars_lost=10.0)  # noqa: E731
    free = lambda i: outcome(stars_lost=50.0 if i < 2 else 0.0)  # noqa: E731
    sure = ten(paying, free)
    assert sure.recommended == entice.UCB()
    assert sure.order == [0, 1]
    assert sure.wanted_budget == 10
    assert ten(paying, free, confidence=0.8).recommended == entice.Greedy()
    certainty = sure.certainty()
    # Two bad runs or more in ten again: 1 − 0.8^10 − 10 · 0.2 · 0.8^9 = 0.62; ±0.17 is 5 errors.
    assert certainty[0] == pytest.approx(0.62, abs=0.17)
    assert sum(certainty.values()) == 1


# Sentences


def test_the_sentence_that_a_manager_understands() -> None:
    def thompson(i: int) -> Outcome:
        return outcome(
            needed=4137.0 if i < 9 else 9000.0, spend=2000.0, budget_day=6.0 if i < 7 else 9.0
        )

    found = ten(thompson, policies=[entice.ThompsonSampling()], budget=2000)
    assert sentences(found) == [
        "Thompson sampling: 9 runs in 10 stay under 4,200 in payments; "
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
def test_how_long_a_budget_lasts(days: list[float], expected: str) -> None:
    found = ten(
        lambda i: outcome(needed=40.0, spend=40.0, budget_day=days[i]),
        policies=[entice.UCB()], budget=50, currency="€",
    )  # fmt: skip
    assert headline(found) == f"UCB: 9 runs in 10 stay under €40 in payments; {expected}"


def test_without_a_budget_the_sentence_says_when_it_is_known() -> None:
    found = ten(
        lambda i: outcome(needed=123.4, spend=123.4, lead_day=4.0 + i),
        lambda i: outcome(stars_lost=600.0, lead_day=NEVER if i < 4 else 1.0),
    )
    assert headline(found) == (
        "UCB: 9 runs in 10 stay under 130 in payments; in a typical run the best item leads for "
        "good from day 8."
    )
    free = "No payments: nothing is spent; in 4 runs in 10 a wrong item leads at the end."
    assert of_policy(found, 1) == free
    assert sentences(found)[1] == (
        "It is recommended because payments and lost stars together cost less than 130 in "
        "9 runs in 10. The others: No payments 1,200."
    )


def test_what_the_headline_says_is_not_said_again() -> None:
    found = ten(
        lambda i: outcome(needed=1.0, spend=1.0, stars_lost=500.0),
        lambda i: outcome(stars_lost=100.0, lead_day=NEVER if i < 3 else 1.0),
    )
    told = sentences(found)
    assert told[0].startswith("No payments: nothing is spent; in 3 runs in 10 a wrong item leads")
    assert sum("wrong item" in sentence for sentence in told) == 1


def test_a_close_call_is_called_one() -> None:
    close = ten(
        lambda i: outcome(stars_lost=10.0 + i % 3, lead_day=NEVER if i == 0 else 1.0),
        lambda i: outcome(stars_lost=10.0 + (i + 1) % 3),
        policies=[entice.EpsilonGreedy(c=5), entice.EpsilonGreedy(c=2)],
    )
    told = " ".join(sentences(close))
    assert "It is a close call: ε-greedy (c = 2) may be as good, and more runs would tell." in told
    clear = ten(lambda i: outcome(), lambda i: outcome(stars_lost=10.0))
    assert "close call" not in " ".join(sentences(clear))


def test_words_for_numbers() -> None:
    assert [rounded_up(x) for x in (4137, 4200, 0.123, 9.99, 10.1, 99_001)] == [
        4200, 4200, 0.13, 10, 11, 100_000,
    ]  # fmt: skip
    for amount in np.random.default_rng(0).uniform(0.01, 1e6, 1000):
        assert amount <= rounded_up(float(amount)) <= max(1.11 * amount, amount + 0.011)
    assert [runs_within(x) for x in (0.9, 0.95, 0.99, 0.8, 0.75, 0.5, 0.93)] == [
        "9 runs in 10", "19 runs in 20", "99 runs in 100", "4 runs in 5", "3 runs in 4",
        "half of all runs", "93 runs in 100",
    ]  # fmt: skip
    assert runs_within(0.9123) == "91.23 % of all runs"
    assert [runs_about(x) for x in (0.1475, 0.15, 0.949)] == [
        "1 run in 7", "2 runs in 10", "all but 1 run in 20",
    ]  # fmt: skip
    euros, crowns = a_plan(currency="€"), a_plan(currency="SEK")
    assert [money(euros, x) for x in (0, 0.5, 12, 1234.5)] == ["€0", "€0.50", "€12", "€1,234"]
    assert money(crowns, 2000) == "2,000 SEK"


def test_policies_are_named_so_that_they_can_be_told_apart() -> None:
    called = names(
        a_plan(
            policies=[
                entice.ThompsonSampling(), entice.ThompsonSampling(scale="std"),
                entice.EpsilonGreedy(c=5), entice.EpsilonGreedy(c=2.5), entice.Greedy(),
            ]
        )
    )  # fmt: skip
    assert called[:2] == ["Thompson sampling", "Thompson Sampling (scale=std)"]
    assert called[2:] == ["ε-greedy (c = 5)", "ε-greedy (c = 2.5)", "No payments"]
    assert len(set(called)) == 5


def test_assumptions_are_told_in_plain_words() -> None:
    told = " ".join(assumptions(a_plan(currency="€")))
    assert "3 items. Their true averages lie around 4.1 stars, two in three of them within" in told
    assert "40 visitors a day for 5 days" in told
    assert "50 % of them rate it" in told
    assert "€2 for each star" in told
    assert "Everyone takes such an offer." in told
    assert "by 0 to 1 stars, each as likely" in told
    other = a_plan(
        spread=None, star_counts=StarCounts(path="x/counts.csv", category="tea"), drift=0.5,
        unrated_shows=3, close_enough=0, policy_sees="zero_to_one",
        acceptance=entice.LogisticAcceptance(midpoint=0.1, width=0.1),
    )  # fmt: skip
    told = " ".join(assumptions(other))
    assert "In each run they are others of category tea, drawn from counts.csv." in told
    assert "Half of all take an offer of 0.1 stars (0.20), nine in ten one of 0.32 stars." in told
    assert "by 0.5 stars." in told
    assert "without ratings to have 3 stars" in told
    assert "as 0 to 1" in told
    eager = a_plan(
        spread=Spread(centre=4.8, width=0.5, shape="uniform"),
        acceptance=entice.LogisticAcceptance(midpoint=-0.1, width=0.1),
    )
    told = " ".join(assumptions(eager))
    assert "between 4.3 and 5 stars" in told
    assert "73.1 % take the smallest offer" in told
    counted = a_plan(
        spread=None, star_counts=StarCounts(counts=[[1, 1, 1, 1, 1]] * 3),
        acceptance=entice.TableAcceptance(payments=[0, 0.5], shares=[0.34, 0.86]),
    )  # fmt: skip
    told = " ".join(assumptions(counted))
    assert "those of the given star counts" in told
    assert "34 % take an offer of 0 stars or less, 86 % one of 0.5 or more." in told


# Files


def test_a_forecast_is_kept_as_json_picture_and_page(tmp_path: Path) -> None:
    found = forecast(a_plan(budget=5.0, currency="$"))
    found.save(tmp_path / "new")
    files = {p.name for p in (tmp_path / "new").iterdir()}
    assert files == {"plan.json", "plan.png", "plan.html"}
    kept = json.loads((tmp_path / "new" / "plan.json").read_text())
    assert kept["answer"] == sentences(found)
    assert kept["recommended"] == found.recommended.label
    assert kept["budget_for_confidence"] == found.wanted_budget
    assert Plan._from_plain(kept["plan"]) == found.plan
    assert len(kept["days"]) == 2 * 5
    spend = [r for r in kept["summary"] if r["policy"] == "UCB" and r["quantity"] == "needed"]
    assert spend[0]["at_confidence"] == found.promise(0, "needed")
    assert (tmp_path / "new" / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_holds_no_code_of_others_and_needs_nothing_else(tmp_path: Path) -> None:
    evil = entice.CustomPolicy(
        by_turns, update=keep_account, memory=1, params=[9.0],
        name="<script>alert('x')</script> & $a$ ${b}",
    )  # fmt: skip
    found = forecast(a_plan(policies=[evil], currency="<i>$", budget=5.0, share_who_rate=1.0))
    found.save(tmp_path)
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; $a$ ${b}" in page
    assert re.findall(r"(?:src|href)=[\"'](?!data:)", page) == []
    assert "url(" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in page
    assert "$setting" not in page


def test_the_picture_shows_names_and_amounts_as_they_are() -> None:
    figure = ten(
        lambda i: outcome(needed=9.0, spend=9.0, needed_by_day=np.arange(5) * 2.0),
        lambda i: outcome(stars_lost=50.0 if i < 2 else 1.0),
        budget=5.0, currency="$",
    ).plot()  # fmt: skip
    costs, needs, leads = figure.axes
    assert [label.get_text() for label in costs.get_yticklabels()] == ["UCB", "No payments"]
    texts = [text.get_text() for text in costs.texts]
    assert texts[:2] == ["$9", "→ $100"]  # beyond the picture, which the others fill
    assert "budget $5" in [text.get_text() for text in needs.texts]
    assert needs.get_xlim() == (0, 5)
    assert len(leads.lines) == 2


def test_a_plan_that_costs_nothing_can_be_drawn() -> None:
    found = ten(lambda i: outcome(), policies=[entice.Greedy()])
    found.plot().savefig("/dev/null", format="png")
    assert "No payments: nothing is spent" in str(found)
    assert repr(found) == "<Forecast: 1 policies × 10 runs × 5 days, seed 7>"


# The command


@pytest.fixture
def run_plan(run_entice: Entice) -> Entice:
    """The command line, with `entice plan` in it."""
    from entice import cli

    if all(command.callback is not plan_command for command in cli.app.registered_commands):
        cli.app.command()(plan_command)
    return run_entice


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


def test_the_command_prints_table_and_answer(
    run_plan: Entice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    Path("plan.toml").write_text(SMALL)
    ran = run_plan("plan", "plan.toml")
    assert ran.code == 0
    found = forecast(Plan.from_toml(SMALL))
    told = plain(ran.out)
    for sentence in sentences(found):
        assert sentence in told
    assert "200 visitors in 5 days, 20 runs." in told
    assert "Seed 7." in told
    assert "…" not in ran.out
    assert list(Path().iterdir()) == [Path("plan.toml")]  # nothing is kept unasked


def test_the_command_keeps_what_is_asked_for(run_plan: Entice) -> None:
    Path("plan.toml").write_text(SMALL)
    ran = run_plan("plan", "plan.toml", "--out", "out", "--seed", "11", "--threads", "1")
    assert ran.code == 0
    assert "Page: out/plan.html" in plain(ran.out)
    assert {p.name for p in Path("out").iterdir()} == {"plan.json", "plan.png", "plan.html"}
    assert json.loads(Path("out/plan.json").read_text())["plan"]["seed"] == 11


def test_the_command_tells_what_is_wrong_and_leaves_nothing(run_plan: Entice) -> None:
    assert_told(run_plan("plan", "nowhere.toml"), "the plan file can't be read")
    Path("plan.toml").write_text(SMALL.replace("days = 5", "day = 5"))
    assert_told(run_plan("plan", "plan.toml", "--out", "out"), "Did you mean 'days'?")
    Path("plan.toml").write_text(SMALL)
    assert_told(run_plan("plan", "plan.toml", "--seed", "-1"), "Plan: seed must be from 0")
    assert_told(run_plan("plan", "plan.toml", "--threads", "0"), "threads must be at least 1")
    Path("file").touch()
    assert_told(run_plan("plan", "plan.toml", "--out", "file"), "must be one that can be written")
    assert not Path("out").exists()


def test_an_interrupted_command_leaves_no_mess(
    run_plan: Entice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("entice.planner.campaign.Campaign.go", interrupted)
    Path("plan.toml").write_text(SMALL)
    ran = run_plan("plan", "plan.toml", "--out", "out")
    assert ran.code == 130
    assert "Interrupted. Nothing was kept." in plain(ran.err)
    assert not Path("out").exists()


def test_the_example_can_be_planned_and_is_that_of_the_docs() -> None:
    given = Plan.from_file(ROOT / "examples" / "marketplace.toml")
    shown = re.search(r"```toml\n(.*?)```", (ROOT / "docs" / "plan.md").read_text(), re.DOTALL)
    assert shown is not None
    assert Plan.from_toml(shown[1]) == given
    few = msgspec.structs.replace(given, replications=20)
    assert forecast(few).runs.height == 80
