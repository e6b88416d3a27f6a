"""`entice plan`: one run by hand, budgets, and what many runs promise."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from plans import PAYING, SPREAD, a_plan, by_turns, keep_account, outcome, ten

import entice
from entice.planner.belief import STARS
from entice.planner.campaign import Campaign
from entice.planner.forecast import at_share, forecast, plan
from entice.planner.outcome import NEVER, Rounds, budget_ends, outcome_of

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
