"""`entice plan`: one run by hand, budgets, and what many runs promise."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from plan_fixtures import PAYING, SPREAD, a_plan, by_turns, keep_account, no_item, outcome, ten

import entice
from entice.planner.campaign_loop import Visits, new_visits
from entice.planner.forecast import forecast, plan, quantile
from entice.planner.outcome import NEVER, measure_outcome
from entice.planner.runner import PlanRunner
from entice.planner.visitors import DAY, VisitorModel, draw_response
from entice.worlds.delays import constant

# One run, by hand

MEANS = np.array([4.0, 3.5, 3.97])
TURNS = entice.CustomPolicy(by_turns, update=keep_account, memory=1, params=[1e9])


def visited(taken: list[int], leader: list[int], cents: list[int], **more: Any) -> Visits:
    """Visitors who took items and were paid for them; nobody declined."""
    visits = new_visits(len(taken))
    return visits._replace(
        taken=np.array(taken), leader=np.array(leader), amount=np.array(cents),
        accepted=np.ones(len(taken), np.bool_), **more,
    )  # fmt: skip


def test_a_run_of_six_visitors_by_hand() -> None:
    given = a_plan(visitors_a_day=2, days=3, price_of_a_star=3.0, budget=None)
    run = visited([0, 1, 2, 0, 1, 0], [1, 1, 1, 0, 2, 0], [150, 0, 75, 0, 150, 0])
    found = measure_outcome(run, run, MEANS, given)
    assert found.spend == found.needed == 3.75
    assert found.stars_lost == pytest.approx(0 + 0.5 + 0.03 + 0 + 0.5 + 0)
    assert found.share_lost == pytest.approx(1.03 / (6 * 4.0))
    # Item 2 is within 0.05 stars of the best: a best one leads from the fourth visitor, day 2.
    assert found.lead_day == 2
    assert found.leads_by_day.tolist() == [False, True, True]
    assert found.needed_by_day.tolist() == [1.5, 2.25, 3.75]
    assert found.budget_day == NEVER
    strict = measure_outcome(run, run, MEANS, a_plan(visitors_a_day=2, days=3, close_enough=0))
    assert strict.lead_day == 3  # the fifth visitor sees item 2 in the lead; the sixth does not


def test_who_declines_is_not_paid() -> None:
    given = a_plan(visitors_a_day=2, days=3, price_of_a_star=3.0)
    run = visited([0] * 6, [0] * 6, [150, 0, 75, 0, 150, 0])
    run.accepted[2] = False
    assert measure_outcome(run, run, MEANS, given).spend == 3.0


def test_who_ends_on_a_wrong_item_never_led_for_good() -> None:
    run = visited([0] * 6, [0, 0, 0, 0, 0, 1], [0] * 6)
    given = a_plan(visitors_a_day=2, days=3)
    assert measure_outcome(run, run, MEANS, given).lead_day == NEVER
    always = visited([0] * 6, [0] * 6, [0] * 6)
    assert measure_outcome(always, always, MEANS, given).lead_day == 1


def test_the_budget_lasts_until_it_is_first_too_small_for_an_item() -> None:
    given = a_plan(visitors_a_day=2, days=3, budget=1.0)
    run = visited([0] * 6, [0] * 6, [0] * 6)
    assert measure_outcome(run, run, MEANS, given).budget_day == NEVER
    run.budget_limited[[3, 5]] = True
    assert measure_outcome(run, run, MEANS, given).budget_day == 2


# Visitors


def test_ratings_are_whole_stars_and_their_mean_is_the_truth_plus_the_drift() -> None:
    """40,000 ratings of 4 stars lifted by 0.3: the mean errs by 0.0023; 5 times that is 2e-7."""
    shares = np.array([[0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]])
    visitor_model = VisitorModel(7, np.cumsum(shares, axis=1), 0.6, 1.0, 200)
    stream = np.zeros(4, np.uint64)
    always = entice.AlwaysAccept().kernel().accept

    def ratings(arm: int, amount: int) -> Any:
        answers = [
            draw_response(always, constant, (), (0.0,), visitor_model, n, arm, 0, amount, stream)
            for n in range(1, 40_001)
        ]
        return np.array([rating for _, _, rating, _ in answers])

    lifted = ratings(0, 100)  # half a star's worth
    assert set(lifted) == {4, 5}
    assert lifted.mean() == pytest.approx(4.3, abs=0.0115)
    assert set(ratings(0, 0)) == {4}
    assert set(ratings(1, 100)) == {5}  # 5 stars are the most


@pytest.mark.parametrize(
    ("delay", "quantiles"),
    [
        (0.5, [0.5, 0.5, 0.5]),
        (entice.ExponentialDelay(mean=3), [-3 * math.log(1 - q) for q in (0.25, 0.5, 0.75)]),
        (entice.LogNormalDelay(median=2, sigma=1), [2 * math.exp(z) for z in (-0.6745, 0, 0.6745)]),
        (entice.TableDelay(ages=[0, 1, 5], shares=[0.25, 0.5, 1]), [0, 1, 3]),
    ],
)
def test_ratings_come_as_late_as_the_plan_says(delay: Any, quantiles: list[float]) -> None:
    """Of 4,000 delays, the rank of a quantile errs by 0.008; five times that is one in 10^6."""
    plan = a_plan(visitors_a_day=800, rating_delay=delay, share_who_rate=1.0)
    visits, _ = PlanRunner(plan).visits(0, 0)
    days = (visits.rated_at - np.arange(4000) * DAY // 800) / DAY
    for share, expected in zip((0.25, 0.5, 0.75), quantiles, strict=True):
        assert np.mean(days < expected - 1e-9) <= share + 0.04
        assert np.mean(days <= expected + 1e-9) >= share - 0.04


def test_so_many_rate_and_so_many_take_offers() -> None:
    """Shares of 2,000 visitors err by 0.011; four times that is one in 10^4."""
    half = entice.TableAcceptance(payments=[0, 1], shares=[0.5, 0.5])
    plan = a_plan(visitors_a_day=400, share_who_rate=0.3, acceptance=half, policies=[TURNS])
    visits, _ = PlanRunner(plan).visits(0, 0)
    assert np.mean(visits.rating > 0) == pytest.approx(0.3, abs=0.045)
    asked = visits.offered != visits.leader
    assert asked.sum() > 500
    assert np.mean(visits.accepted[asked]) == pytest.approx(0.5, abs=0.09)
    assert visits.accepted[~asked].all()
    declined = ~visits.accepted
    np.testing.assert_array_equal(visits.taken[declined], visits.leader[declined])
    np.testing.assert_array_equal(visits.taken[~declined], visits.offered[~declined])


def test_payments_in_stars_do_not_depend_on_what_policies_see() -> None:
    """ε-greedy compares averages only: to it 0 to 1 is the same scale as 1 to 5 stars.

    But for the last digit of an average, which may add a cent to a payment.
    """
    acceptances = (
        entice.LogisticAcceptance(midpoint=0.1, width=0.1),
        entice.TableAcceptance(payments=[0, 0.5], shares=[0.3, 0.9]),
    )
    for acceptance in acceptances:
        changes = {"policies": [entice.EpsilonGreedy(c=5)], "acceptance": acceptance}
        stars, unit = (
            forecast(a_plan(**changes, policy_sees=sees)) for sees in ("stars", "zero_to_one")
        )
        np.testing.assert_allclose(
            stars.run_values(0, "spend"), unit.run_values(0, "spend"), rtol=0.01
        )
        np.testing.assert_allclose(
            stars.run_values(0, "stars_lost"), unit.run_values(0, "stars_lost")
        )
        assert stars.run_values(0, "spend").min() > 0


# Budgets


def test_visitors_follow_the_averages_once_the_money_is_gone() -> None:
    """The end of a budget, against a policy that keeps its own accounts.

    Where everyone rates, a policy sees each payment, and can stop by itself. 400 worlds, the same
    for both; 4 standard errors of the difference are exceeded once in 16,000 seeds. The policy
    stops at once; with a budget, small payments are made from what is left. So is a little spent.
    """
    settings: dict[str, Any] = {"share_who_rate": 1.0, "replications": 400, "arms": 4, "days": 10}
    own = msgspec.structs.replace(TURNS, params=[5.0])
    limited = forecast(a_plan(**settings, policies=[TURNS], budget=2 * 5.0))
    alone = forecast(a_plan(**settings, policies=[own]))
    for column in ("stars_lost", "stuck"):
        difference = limited.run_values(0, column) - alone.run_values(0, column)
        error = difference.std() / math.sqrt(len(difference))
        assert abs(difference.mean()) < 4 * error, column
    assert limited.run_values(0, "spend").max() <= 10
    assert limited.run_values(0, "needed").min() > 10
    free = forecast(a_plan(**settings, policies=[TURNS]))
    assert (
        limited.run_values(0, "stars_lost").mean() < 0.7 * free.run_values(0, "stars_lost").mean()
    )
    np.testing.assert_array_equal(limited.run_values(0, "needed"), free.run_values(0, "spend"))


def test_a_run_with_a_budget_is_one_without_until_money_is_short() -> None:
    campaign = PlanRunner(a_plan(budget=4.0))
    free = PlanRunner(a_plan())
    some = 0
    for run in range(10):
        visits, unlimited = campaign.visits(0, run)
        alone, _ = free.visits(0, run)
        for column, expected in zip(unlimited, alone, strict=True):
            np.testing.assert_array_equal(column, expected)
        end = int(np.flatnonzero(visits.budget_limited)[0]) if visits.budget_limited.any() else 200
        for column, expected in zip(visits, unlimited, strict=True):
            np.testing.assert_array_equal(column[:end], expected[:end])
        assert visits.spent.sum() <= 400
        some += end < 200
    assert some > 0


def test_a_wide_gap_early_does_not_share_a_beginning() -> None:
    """Runs with and without a budget are compared to such that were never joined."""
    given = a_plan(
        policies=[entice.DriftCorrectedThompson(display="corrected")], budget=40.0,
        price_of_a_star=2.0, drift=3.0,
    )  # fmt: skip
    campaign = PlanRunner(given)
    alone = PlanRunner(msgspec.structs.replace(given, budget=None))
    for run in range(5):
        _, unlimited = campaign.visits(0, run)
        expected, _ = alone.visits(0, run)
        np.testing.assert_array_equal(unlimited.amount, expected.amount)


def test_a_policy_that_names_no_item_is_told() -> None:
    beyond = entice.CustomPolicy(no_item)
    with pytest.raises(entice.StudyError, match="selected arm 3 for visitor 1 of run 0, but arms"):
        forecast(a_plan(policies=[beyond], replications=10), threads=1)


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
    found, campaign = forecast(given), PlanRunner(given)
    for run in range(5):
        visits, _ = campaign.visits(0, run)
        paid = visits.stars[visits.accepted & (visits.stars > 0)]
        row = found.runs.row(run, named=True)
        # Rounded up to a cent, each of them.
        assert 0 <= row["spend"] - 2.0 * paid.sum() <= 0.01 * len(paid)
        assert row["cost"] == pytest.approx(row["spend"] + 2.0 * row["stars_lost"])
        means = campaign.worlds.draw(run).means
        assert row["stars_lost"] == pytest.approx((means.max() - means[visits.taken]).sum())
    dearer = forecast(msgspec.structs.replace(given, price_of_a_star=5.0))
    np.testing.assert_allclose(
        dearer.run_values(0, "spend"), 2.5 * found.run_values(0, "spend"), rtol=0.1
    )


def test_promises_are_quantiles_of_the_runs() -> None:
    found = forecast(a_plan())
    spend = np.sort(found.run_values(0, "spend"))
    assert found.at_confidence(0, "spend") == spend[17]  # 18 of 20 runs do not exceed it
    assert found.median(0, "spend") == spend[9]
    assert (spend <= found.at_confidence(0, "spend")).mean() >= 0.9
    for share in (0.05, 0.5, 0.9, 0.95):
        expected = np.quantile(spend, share, method="inverted_cdf")
        assert quantile(spend, share) == expected
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
    assert sure.ranking == [0, 1]
    assert sure.required_budget == 10
    assert ten(paying, free, confidence=0.8).recommended == entice.Greedy()
    first_place_shares = sure.first_place_shares()
    # Two bad runs or more in ten again: 1 − 0.8^10 − 10 · 0.2 · 0.8^9 = 0.62; ±0.17 is 5 errors.
    assert first_place_shares[0] == pytest.approx(0.62, abs=0.17)
    assert sum(first_place_shares.values()) == 1
