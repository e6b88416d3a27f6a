"""Runs and forecasts of plans: outcomes, visitors, budgets and quantiles."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from plan_fixtures import (
    ALWAYS,
    ALWAYS_BY_TABLE,
    PAYING,
    SPREAD,
    add_payment,
    forecast_of_ten,
    make_plan,
    outcome,
    round_robin,
)
from sizes import sized

import entice
from entice.errors import InputError
from entice.planner.assumptions import describe_assumptions
from entice.planner.campaign_loop import Visits, new_visits
from entice.planner.forecast import forecast, plan, quantile
from entice.planner.formatting import policy_names
from entice.planner.outcome import NEVER, measure_outcome
from entice.planner.runner import PlanRunner
from entice.planner.visitors import DAY, VisitorModel, draw_response
from entice.service.domain.from_plan import campaigns
from entice.service.domain.spec import CampaignSpec
from entice.worlds.delays import constant_delay
from entice.worlds.response import EVERYONE

# Outcomes computed by hand

MEANS = np.array([4.0, 3.5, 3.97])
TURNS = entice.CustomPolicy(round_robin, update=add_payment, memory=1, params=[1e9])
INVALID = msgspec.structs.replace(TURNS, params=[-1.0])


def make_visits(taken: list[int], leader: list[int], cents: list[int], **more: Any) -> Visits:
    """Return the records of visitors who all accepted."""
    visits = new_visits(len(taken))
    return visits._replace(
        taken=np.array(taken), leader=np.array(leader), amount=np.array(cents),
        accepted=np.ones(len(taken), np.bool_), **more,
    )  # fmt: skip


def test_the_outcome_of_six_visitors_computed_by_hand() -> None:
    given = make_plan(visitors_a_day=2, days=3, price_of_a_star=3.0, budget=None)
    run = make_visits([0, 1, 2, 0, 1, 0], [1, 1, 1, 0, 2, 0], [150, 0, 75, 0, 150, 0])
    found = measure_outcome(run, run, MEANS, given)
    assert found.spend == found.needed == 3.75
    assert found.stars_lost == pytest.approx(0 + 0.5 + 0.03 + 0 + 0.5 + 0)
    assert found.share_lost == pytest.approx(1.03 / (6 * 4.0))
    # Item 2 is within 0.05 stars of the best: a best item leads from the fourth visitor on, day 2.
    assert found.lead_day == 2
    assert found.leads_by_day.tolist() == [False, True, True]
    assert found.needed_by_day.tolist() == [1.5, 2.25, 3.75]
    assert found.budget_day == NEVER
    strict = measure_outcome(run, run, MEANS, make_plan(visitors_a_day=2, days=3, close_enough=0))
    assert strict.lead_day == 3  # the fifth visitor sees item 2 in the lead; the sixth does not


def test_with_segments_the_best_item_is_that_of_the_visitors_segment() -> None:
    means = np.array([[4.0, 3.0], [3.5, 4.5]])  # items, segments
    given = make_plan(visitors_a_day=2, days=3)
    segment = np.array([0, 1, 0, 1, 1, 0])
    run = make_visits([0, 0, 1, 1, 1, 0], [0, 0, 1, 1, 1, 0], [0] * 6, segment=segment)
    run.rating[:3] = 4
    found = measure_outcome(run, run, means, given)
    assert found.stars_lost == pytest.approx(0 + 1.5 + 0.5)
    assert found.share_lost == pytest.approx(2 / (3 * 4.0 + 3 * 4.5))
    # The first segment sees item 1 in the lead until its last visitor, the sixth.
    assert found.leads_by_day.tolist() == [False, False, True]
    assert found.lead_day == 3
    assert found.share_rated == 0.5
    run.leader[5] = 1
    assert measure_outcome(run, run, means, given).lead_day == NEVER


@pytest.mark.parametrize("missing", ["drift", "days", "price_of_a_star", "visitors_a_day"])
def test_a_plan_without_a_required_setting_names_it(missing: str) -> None:
    settings: dict[str, Any] = {
        "arms": 3, "spread": SPREAD, "visitors_a_day": 10, "days": 2, "price_of_a_star": 2.0,
        "drift": 0,
    }  # fmt: skip
    del settings[missing]
    with pytest.raises(InputError, match=f"entice.plan: {missing} must be given.* Set it to"):
        entice.plan(**settings)


def test_the_share_of_visitors_who_rate_is_shown_with_a_response() -> None:
    makers = [lambda i: outcome(share_rated=0.3 + 0.01 * i)] * 2
    response = entice.LogisticResponse(-4, by_reward=0.8, by_payment=2)
    found = forecast_of_ten(*makers, share_who_rate=1.0, response=response)
    text = " ".join(str(found).split())
    assert "visitors" in text
    assert "34.0 %" in text  # the median run; nine in ten stay under 38 %
    assert "38.0 %" in text
    rows = found.summary().filter(quantity="share_rated")
    assert rows["q50"].to_list() == pytest.approx([0.34, 0.34])
    assert "34.0 %" not in str(forecast_of_ten(*makers))


def test_visitors_who_decline_are_not_paid() -> None:
    given = make_plan(visitors_a_day=2, days=3, price_of_a_star=3.0)
    run = make_visits([0] * 6, [0] * 6, [150, 0, 75, 0, 150, 0])
    run.accepted[2] = False
    assert measure_outcome(run, run, MEANS, given).spend == 3.0


def test_a_run_that_ends_with_a_wrong_item_has_no_lead_day() -> None:
    run = make_visits([0] * 6, [0, 0, 0, 0, 0, 1], [0] * 6)
    given = make_plan(visitors_a_day=2, days=3)
    assert measure_outcome(run, run, MEANS, given).lead_day == NEVER
    always = make_visits([0] * 6, [0] * 6, [0] * 6)
    assert measure_outcome(always, always, MEANS, given).lead_day == 1


def test_the_budget_lasts_until_it_first_changes_an_offer() -> None:
    given = make_plan(visitors_a_day=2, days=3, budget=1.0)
    run = make_visits([0] * 6, [0] * 6, [0] * 6)
    assert measure_outcome(run, run, MEANS, given).budget_day == NEVER
    run.budget_limited[[3, 5]] = True
    assert measure_outcome(run, run, MEANS, given).budget_day == 2


# Visitors


@pytest.mark.usefixtures("untraced")
def test_ratings_are_whole_stars_with_an_exact_mean() -> None:
    """40,000 ratings of 4 stars raised by 0.3: standard error 0.0023; 5 of them: p = 6e-7."""
    shares = np.array([[0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]])
    visitor_model = VisitorModel(7, np.cumsum(shares, axis=1), 0.6, 1.0, 200)
    stream = np.zeros(4, np.uint64)
    always = entice.AlwaysAccept().kernel().accept

    def ratings(arm: int, amount: int, count: int = 2_000) -> Any:
        responses = [
            draw_response(
                always,
                constant_delay,
                EVERYONE.probability,
                (),
                (0.0,),
                visitor_model,
                n,
                arm,
                0,
                amount,
                stream,
            )
            for n in range(1, count + 1)
        ]
        return np.array([rating for _, _, rating, _ in responses])

    raised = ratings(0, 100, 40_000)  # worth half a star
    assert set(raised) == {4, 5}
    assert raised.mean() == pytest.approx(4.3, abs=0.0115)
    assert set(ratings(0, 0)) == {4}
    assert set(ratings(1, 100)) == {5}  # 5 stars are the maximum


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize(("stars", "amount"), [(2, 0), (5, 0), (2, 100), (5, 100)])
def test_the_response_depends_on_the_stars_before_the_drift_and_on_the_payment(
    stars: int, amount: int
) -> None:
    """Shares of 4,000 visitors have a standard error of at most 0.008; 5 of them: 1 in 10^6.

    The drift of 2 raises the rating of a paid visitor by a star, which changes no share.
    """
    response = entice.LogisticResponse(base=-2, by_reward=0.5, by_payment=1.5)
    kernel, always = response.kernel(), entice.AlwaysAccept().kernel().accept
    cumulative = np.cumsum(np.eye(5)[[stars - 1]], axis=1)
    visitor_model = VisitorModel(7, cumulative, 2.0, 1.0, 200, kernel.params)
    ratings = [
        draw_response(
            always, constant_delay, kernel.probability, (), (0.0,), visitor_model, n, 0, 0, amount,
            np.zeros(4, np.uint64),
        ).rating
        for n in range(1, 4_001)
    ]  # fmt: skip
    expected = 1 / (1 + math.exp(2 - 0.5 * stars - 1.5 * amount / 200))
    assert np.mean(np.array(ratings) > 0) == pytest.approx(expected, abs=0.04)
    assert set(ratings) - {0} == {min(5, stars + amount // 100)}


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("delay", "quantiles"),
    [
        (0.5, [0.5, 0.5, 0.5]),
        (entice.ExponentialDelay(mean=3), [-3 * math.log(1 - q) for q in (0.25, 0.5, 0.75)]),
        (
            entice.LogNormalDelay(median=2, sigma=1),
            [2 * math.exp(z) for z in (-0.6745, 0, 0.6745)],
        ),
        (entice.TableDelay(ages=[0, 1, 5], shares=[0.25, 0.5, 1]), [0, 1, 3]),
    ],
)
def test_delays_have_the_given_distribution(delay: Any, quantiles: list[float]) -> None:
    """4,000 delays: ranks of quantiles have a standard error of 0.008; 5 of them: 1 in 10^6."""
    plan = make_plan(
        policies=PAYING[:1], visitors_a_day=800, rating_delay=delay, share_who_rate=1.0
    )
    visits, _ = PlanRunner(plan).simulate_run(0, 0)
    days = (visits.rated_at - np.arange(4000) * DAY // 800) / DAY
    for share, expected in zip((0.25, 0.5, 0.75), quantiles, strict=True):
        assert np.mean(days < expected - 1e-9) <= share + 0.04
        assert np.mean(days <= expected + 1e-9) >= share - 0.04


def test_shares_of_raters_and_of_accepted_offers() -> None:
    """Shares of 2,000 visitors have a standard error of 0.011; 4 of them: 1 in 10^4."""
    half = entice.TableAcceptance(payments=[0, 1], shares=[0.5, 0.5])
    plan = make_plan(visitors_a_day=400, share_who_rate=0.3, acceptance=half, policies=[TURNS])
    visits, _ = PlanRunner(plan).simulate_run(0, 0)
    assert np.mean(visits.rating > 0) == pytest.approx(0.3, abs=0.045)
    explored = visits.offered != visits.leader
    assert explored.sum() > 500
    assert np.mean(visits.accepted[explored]) == pytest.approx(0.5, abs=0.09)
    assert visits.accepted[~explored].all()
    declined = ~visits.accepted
    np.testing.assert_array_equal(visits.taken[declined], visits.leader[declined])
    np.testing.assert_array_equal(visits.taken[~declined], visits.offered[~declined])


def test_payments_in_stars_do_not_depend_on_the_policys_scale() -> None:
    """ε-greedy only compares averages, so 0 to 1 is equivalent to 1 to 5 stars.

    The policy that selects items in turn ignores them. Rounding in the last digit of an average may
    add a cent to a payment.
    """
    for policy, acceptance in (
        (entice.EpsilonGreedy(c=5), entice.LogisticAcceptance(midpoint=0.1, width=0.1)),
        (TURNS, entice.TableAcceptance(payments=[0, 0.5], shares=[0.3, 0.9])),
    ):
        changes = {"policies": [policy], "acceptance": acceptance}
        stars, unit = (
            forecast(make_plan(**changes, policy_sees=sees)) for sees in ("stars", "zero_to_one")
        )
        np.testing.assert_allclose(
            stars.run_values(0, "spend"), unit.run_values(0, "spend"), rtol=0.01
        )
        np.testing.assert_allclose(
            stars.run_values(0, "stars_lost"), unit.run_values(0, "stars_lost")
        )
        assert stars.run_values(0, "spend").min() > 0


# Budgets


def test_visitors_take_the_best_average_after_the_budget_is_spent() -> None:
    """Compare a budget with a policy that limits its payments itself.

    If all visitors rate, the policy sees each payment and can stop by itself. Both run in the same
    worlds; 4 standard errors of the difference are exceeded for 1 in 16,000 seeds. The policy
    stops at once, while a budget still allows small payments.
    """
    settings: dict[str, Any] = {
        "share_who_rate": 1.0, "replications": sized(100, 400), "arms": 4, "days": 10,
        "acceptance": ALWAYS_BY_TABLE,
    }  # fmt: skip
    own = msgspec.structs.replace(TURNS, params=[5.0])
    limited = forecast(make_plan(**settings, policies=[TURNS], budget=2 * 5.0))
    alone = forecast(make_plan(**settings, policies=[own]))
    for column in ("stars_lost", "stuck"):
        difference = limited.run_values(0, column) - alone.run_values(0, column)
        error = difference.std() / math.sqrt(len(difference))
        assert abs(difference.mean()) < 4 * error, column
    assert limited.run_values(0, "spend").max() <= 10
    assert limited.run_values(0, "needed").min() > 10
    free = forecast(make_plan(**settings, policies=[TURNS]))
    assert (
        limited.run_values(0, "stars_lost").mean() < 0.7 * free.run_values(0, "stars_lost").mean()
    )
    np.testing.assert_array_equal(limited.run_values(0, "needed"), free.run_values(0, "spend"))


def test_a_budget_changes_nothing_before_the_first_limited_offer() -> None:
    runner = PlanRunner(make_plan(budget=4.0))
    free = PlanRunner(make_plan())
    some = 0
    for run in range(10):
        visits, unlimited = runner.simulate_run(0, run)
        alone, _ = free.simulate_run(0, run)
        for column, expected in zip(unlimited, alone, strict=True):
            np.testing.assert_array_equal(column, expected)
        end = int(np.flatnonzero(visits.budget_limited)[0]) if visits.budget_limited.any() else 200
        for column, expected in zip(visits, unlimited, strict=True):
            np.testing.assert_array_equal(column[:end], expected[:end])
        assert visits.spent.sum() <= 400
        some += end < 200
    assert some > 0


@pytest.mark.usefixtures("plain")
def test_an_early_unexpected_limit_restarts_the_run() -> None:
    """The run without a budget equals that of a plan without one."""
    given = make_plan(
        policies=[entice.DriftCorrectedThompson(display="corrected")], budget=40.0,
        price_of_a_star=2.0, drift=3.0, acceptance=ALWAYS,
    )  # fmt: skip
    runner = PlanRunner(given)
    alone = PlanRunner(msgspec.structs.replace(given, budget=None))
    for run in range(5):
        _, unlimited = runner.simulate_run(0, run)
        expected, _ = alone.simulate_run(0, run)
        np.testing.assert_array_equal(unlimited.amount, expected.amount)


def test_a_policy_that_selects_an_invalid_arm_is_reported() -> None:
    invalid: dict[str, Any] = {"policies": [INVALID], "acceptance": ALWAYS_BY_TABLE}
    with pytest.raises(entice.StudyError, match="selected arm 3 for visitor 1 of run 0, but arms"):
        forecast(make_plan(**invalid, replications=10), threads=1)


def fail_later(t, pulls, means, memory, params, rng):  # type: ignore[no-untyped-def]
    """Raise an error for the third visitor."""
    if t == 3:
        raise ValueError("no third visitor")
    return t % len(pulls)


def test_an_error_in_a_policy_is_reported_with_its_name() -> None:
    failing = entice.CustomPolicy(fail_later)
    with pytest.raises(entice.StudyError, match="fail_later raised ValueError: no third visitor"):
        forecast(make_plan(policies=[TURNS, failing], replications=10), threads=1)


def test_all_policies_and_visitors_share_one_compiled_loop() -> None:
    first = PlanRunner(make_plan(policies=[*PAYING, TURNS]))
    second = PlanRunner(make_plan(policies=[entice.Greedy()], acceptance=ALWAYS_BY_TABLE))
    runners = first.policy_runners + second.policy_runners
    assert len({id(runner._compiled) for runner in runners}) == 1


# Forecasts


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    one, two = (forecast(make_plan(budget=5.0), threads=threads) for threads in (1, 3))
    assert one.runs.equals(two.runs)
    assert one.days.equals(two.days)
    assert one.to_json() == two.to_json()
    other = forecast(make_plan(budget=5.0, seed=8))
    assert not one.runs.equals(other.runs)


def test_a_seed_is_drawn_and_printed_if_omitted(capsys: pytest.CaptureFixture[str]) -> None:
    found = plan(
        arms=3, spread=SPREAD, visitors_a_day=40, days=5, price_of_a_star=2, share_who_rate=0.5,
        drift=0.5, policies=PAYING, replications=10,
    )  # fmt: skip
    assert f"entice: seed {found.plan.seed} (drawn" in capsys.readouterr().err
    assert found.runs.height == 20


def test_progress_is_reported() -> None:
    reports: list[tuple[int, int]] = []
    forecast(make_plan(), progress=lambda done, total: reports.append((done, total)))
    assert reports[0] == (0, 20)
    assert reports[-1] == (20, 20)


def test_an_interrupted_plan_stops_its_threads() -> None:
    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        forecast(make_plan(replications=1000), progress=interrupt)


def test_spending_is_payments_times_the_price_of_a_star() -> None:
    given = make_plan()
    found, runner = forecast(given), PlanRunner(given)
    for run in range(5):
        visits, _ = runner.simulate_run(0, run)
        paid = visits.stars[visits.accepted & (visits.stars > 0)]
        row = found.runs.row(run, named=True)
        # Each payment is rounded up to a cent.
        assert 0 <= row["spend"] - 2.0 * paid.sum() <= 0.01 * len(paid)
        assert row["cost"] == pytest.approx(row["spend"] + 2.0 * row["stars_lost"])
        means = runner.worlds.draw(run).means
        assert row["stars_lost"] == pytest.approx((means.max() - means[visits.taken]).sum())
    more_expensive = forecast(msgspec.structs.replace(given, price_of_a_star=5.0))
    np.testing.assert_allclose(
        more_expensive.run_values(0, "spend"), 2.5 * found.run_values(0, "spend"), rtol=0.1
    )


def test_reported_values_are_quantiles_of_the_runs() -> None:
    found = forecast(make_plan())
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
    """UCB always costs 30; Greedy costs nothing in 8 runs, and 100 in two."""
    paying = lambda i: outcome(spend=10.0, needed=10.0, stars_lost=10.0)  # noqa: E731
    free = lambda i: outcome(stars_lost=50.0 if i < 2 else 0.0)  # noqa: E731
    sure = forecast_of_ten(paying, free)
    assert sure.recommended == entice.UCB()
    assert sure.ranking == [0, 1]
    assert sure.required_budget == 10
    assert forecast_of_ten(paying, free, confidence=0.8).recommended == entice.Greedy()
    first_place_shares = sure.first_place_shares()
    # Two bad runs or more in a resample: 1 − 0.8^10 − 10 · 0.2 · 0.8^9 = 0.62; ±0.17 is 5 errors.
    assert first_place_shares[0] == pytest.approx(0.62, abs=0.17)
    assert sum(first_place_shares.values()) == 1


# Holdout


def test_a_holdout_halves_uniform_exploration_and_changes_nothing_without_payments() -> None:
    uniform = entice.EpsilonGreedy(c=1e6)  # UCB would explore as much with the other half
    settings: dict[str, Any] = {"policies": [uniform, entice.Greedy()], "replications": 20}
    without, half = (
        forecast(make_plan(**settings, holdout=share), progress=False).runs for share in (0.0, 0.5)
    )
    explores, greedy = (pl.col("policy_index") == i for i in (0, 1))
    assert half.filter(greedy).equals(without.filter(greedy))
    spent = [runs.filter(explores)["spend"].sum() for runs in (without, half)]
    assert 0.4 < spent[1] / spent[0] < 0.6  # 2,000 of 4,000 visitors, give or take 100
    assert "holdout" not in make_plan(**settings).to_plain()


def test_the_assumptions_mention_a_holdout() -> None:
    texts = describe_assumptions(make_plan(holdout=0.1, holdout_feeds_averages=False))
    assert any("10 % of the visitors are held out" in text for text in texts)
    assert not any("held out" in text for text in describe_assumptions(make_plan()))


# Learned price


def test_a_learned_price_costs_less_if_all_visitors_accept_anything() -> None:
    settings: dict[str, Any] = {
        "policies": [entice.EpsilonGreedy(c=1e6), entice.Greedy()], "replications": 20,
        "share_who_rate": 1.0, "acceptance": ALWAYS, "drift": 0,
    }  # fmt: skip
    price = entice.LearnedPrice(explore=0.3)
    gap, learned = (
        forecast(make_plan(**settings, price=price), progress=False).runs for price in (None, price)
    )
    explores, greedy = (pl.col("policy_index") == i for i in (0, 1))
    assert learned.filter(greedy).equals(gap.filter(greedy))
    # Without drift, and if all accept, payments do not change what is learned about the items.
    paid, less = (runs.filter(explores) for runs in (gap, learned))
    assert paid["stars_lost"].equals(less["stars_lost"])
    assert (less["spend"] < paid["spend"]).all()
    assert less["spend"].sum() < 0.8 * paid["spend"].sum()
    assert "price" not in make_plan(**settings).to_plain()


def test_the_assumptions_mention_a_learned_price() -> None:
    texts = describe_assumptions(make_plan(price=entice.LearnedPrice(acceptance=0.7)))
    assert any("the cheapest price that 70 % of them accept" in text for text in texts)
    assert not any("learned" in text for text in describe_assumptions(make_plan()))


# Campaigns


def test_a_plan_with_any_seed_gives_campaigns() -> None:
    """Seeds above 2^53 too: the service does not draw from the seed of the plan."""
    found = forecast_of_ten(lambda _: outcome(), lambda _: outcome(), seed=2**63 - 1)
    tables = campaigns(found)
    assert list(tables) == policy_names(found.plan)
    for table in tables.values():
        made = CampaignSpec.from_plain(table)
        assert made.plan is not None
        assert made.plan.seed == 2**63 - 1
