"""Plans and beliefs: validation, TOML, and the drawing of worlds."""

from __future__ import annotations

import inspect
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_fixtures import SPREAD, make_plan

import entice
from entice.errors import InputError
from entice.planner.belief import STARS, Spread, StarCounts, shares_with_means
from entice.planner.forecast import forecast
from entice.planner.runner import WorldSampler
from entice.planner.segments import PlanSegments
from entice.planner.spec import Plan

COUNTED = """\
category,product,incentivized,stars_1,stars_2,stars_3,stars_4,stars_5
dryer,a,0,5,5,10,40,90
dryer,a,1,0,0,0,3,9
dryer,b,0,10,5,10,30,70
dryer,c,0,1,0,0,0,4
oven,d,0,20,10,20,40,60
"""

# Specs


SEGMENTS = PlanSegments(shares=[0.5, 0.5], means=[[4.5, 4, 3.5], [3.5, 4, 4.5]])


def test_the_function_plan_accepts_all_settings_of_a_plan() -> None:
    assert set(Plan.__struct_fields__) <= set(inspect.signature(entice.plan).parameters)


def test_a_plan_survives_toml() -> None:
    acceptances = (
        entice.AlwaysAccept(),
        entice.LogisticAcceptance(midpoint=0.1, width=0.1),
        entice.TableAcceptance(payments=[0, 1], shares=[0.3, 0.9]),
    )
    for acceptance in acceptances:
        given = make_plan(acceptance=acceptance, budget=100, currency="€", policies=[entice.UCB()])
        assert Plan.from_toml(given.to_toml()) == given
    delays = (
        0.5,
        entice.ExponentialDelay(mean=3),
        entice.LogNormalDelay(median=1, sigma=2),
        entice.TableDelay(ages=[0, 1], shares=[0.5, 1]),
    )
    for delay in delays:
        given = make_plan(
            rating_delay=delay, rating_window=3600, late_ratings=False, margin=0.05,
            cap_per_offer=2, cap_per_player=3, budget=50, pace_over=100,
            probe=entice.Probe(share=0.1, amount=[0.1, 0.2]), holdout=0.1,
            holdout_feeds_averages=False, price=entice.LearnedPrice(acceptance=0.6),
        )  # fmt: skip
        assert Plan.from_toml(given.to_toml()) == given
    counted = make_plan(
        arms=None, spread=None, star_counts=StarCounts(counts=[[1, 0, 0, 2, 3]] * 2)
    )
    assert Plan.from_toml(counted.to_toml()) == counted
    assert counted.arms == 2
    response = entice.LogisticResponse(-3, by_reward=0.5, by_payment=1)
    with_response = make_plan(share_who_rate=1.0, response=response)
    assert Plan.from_toml(with_response.to_toml()) == with_response
    assert "response" not in make_plan().to_plain()
    segments = make_plan(arms=None, spread=None, segments=SEGMENTS)
    assert Plan.from_toml(segments.to_toml()) == segments
    assert (segments.arms, segments.known_segments, segments.unrated_stars) == (3, 2, 4.0)


def test_defaults_compare_the_papers_policies_equal_pay_and_no_payments() -> None:
    settings: dict[str, Any] = {
        "arms": 2, "spread": SPREAD, "visitors_a_day": 10, "days": 2, "price_of_a_star": 1,
        "drift": 0.5,  # a single number for the drift
    }  # fmt: skip
    given = Plan(**settings)
    paper = entice.UCB(), entice.ThompsonSampling(), entice.EpsilonGreedy(c=5)
    assert given.policies == (*paper, entice.EqualPay(horizon=20), entice.Greedy())
    half = Plan(**settings, share_who_rate=0.5, policy_sees="zero_to_one")
    assert half.policies[3] == entice.EqualPay(horizon=10, noise=0.25)  # in ratings, and their unit
    # 4.1 stars give log-odds of −1.0.
    logistic = Plan(**settings, response=entice.LogisticResponse(-5.1, by_reward=1))
    assert logistic.policies[3] == entice.EqualPay(horizon=round(20 / (1 + math.exp(1))))
    probed = Plan(**settings, probe=entice.Probe())
    assert probed.policies == (*paper, entice.Greedy())
    assert Plan(**settings, overlap=0.02).policies == (*paper, entice.Greedy())
    assert Plan(**settings, price=entice.LearnedPrice()).policies == (*paper, entice.Greedy())
    many = Plan(**settings | {"arms": 101, "overlap": 0.02})
    assert many.policies == (entice.UCB(), entice.EpsilonGreedy(c=5), entice.Greedy())
    counted = settings | {"arms": None, "spread": None}
    counts = StarCounts(counts=[[1, 1, 1, 1, 1]] * 101)
    thompson = {"overlap": 0.02, "policies": [entice.ThompsonSampling()]}
    with pytest.raises(InputError, match="more than 100 arms"):
        Plan(**counted | {"star_counts": counts} | thompson)
    assert given.drift == (0.5, 0.5)
    assert given.confidence == 0.9


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spread": None, "segments": SEGMENTS, "arms": 4}, "items of segments.means, 3; got 4"),
        (
            {"spread": None, "segments": SEGMENTS, "policies": [entice.EqualPay()]},
            "policies[0] is EqualPay, which remembers ratings that may be from other segments",
        ),
        ({"spread": None, "segments": [0.5, 0.5]}, "Plan: segments must be a PlanSegments"),
        ({"segments": SEGMENTS}, "segments, the belief about the items; got 'spread and segments'"),
        ({"arms": 1}, "Plan: arms must be a whole number of at least 2; got 1"),
        ({"arms": None}, "Plan: arms must be the number of items"),
        ({"spread": None}, "must have exactly one of spread, star_counts and segments"),
        (
            {"star_counts": StarCounts(counts=[[1, 1, 1, 1, 1]] * 3)},
            "must have exactly one of spread, star_counts and segments",
        ),
        ({"policies": [entice.KLUCB()]}, "got 'stars'. Set policy_sees to \"zero_to_one\""),
        ({"spread": 0.4}, "Plan: spread must be a Spread"),
        (
            {"spread": None, "star_counts": StarCounts(counts=[[1, 1, 1, 1, 1]] * 2)},
            "must be the number of rows of star_counts, 2; got 3",
        ),
        ({"visitors_a_day": 0}, "visitors_a_day must be a whole number of at least 1"),
        ({"days": 3651}, "days must be at most 3,650"),
        ({"visitors_a_day": 10**6, "days": 100}, "at most 5,000,000; got 100000000"),
        ({"price_of_a_star": 0}, "price_of_a_star must be greater than 0"),
        ({"currency": "a\nb"}, "currency must be an ISO 4217 code"),
        ({"currency": "pieces of eight", "currency_digits": 0}, "a name of 3 to 12 letters"),
        ({"share_who_rate": 0}, "greater than 0 and at most 1"),
        ({"response": 0.5}, "response must be a LogisticResponse or None; got 0.5"),
        (
            {"response": entice.LogisticResponse(0)},  # with a share of 0.5
            "share_who_rate must be left out if there is a response, which says who rates; got 0.5",
        ),
        ({"acceptance": 0.5}, "acceptance must be one of AlwaysAccept, Logistic"),
        ({"drift": [1, 0]}, "have the lowest first"),
        ({"drift": [-1, 0]}, "must not be negative"),
        ({"drift": [0, 1, 2]}, "must be a pair"),
        ({"policies": []}, "at least one entry"),
        ({"policies": ["ucb"]}, "policies[0] must be one of UCB"),
        ({"policies": [entice.UCB(), entice.UCB()]}, "policies[1] must not be repeated"),
        ({"budget": 0}, "Omit it to find out how much is needed"),
        ({"confidence": 0.4}, "at least 0.5 and less than 1"),
        ({"confidence": 0.99}, "replications must be at least 100 for a confidence of 0.99"),
        ({"unrated_shows": 6}, "from 1 to 5 stars"),
        ({"close_enough": -1}, "from 0 to 4 stars"),
        ({"policy_sees": "percent"}, 'must be "stars" or "zero_to_one"'),
        ({"seed": -1}, "seed must be from 0"),
        ({"rating_delay": -1}, "rating_delay must be from 0 to 3,650 days, or a distribution"),
        ({"rating_delay": "soon"}, "rating_delay must be a number"),
        ({"rating_window": 0}, "rating_window must be a whole number of at least 1"),
        ({"late_ratings": 1}, "late_ratings must be true or false"),
        ({"margin": -0.5}, "margin must not be negative"),
        ({"cap_per_offer": -1}, "cap_per_offer must not be negative"),
        ({"pace_over": 100}, "pace_over requires a budget"),
        ({"pace_over": 0, "budget": 9}, "pace_over must be a whole number of at least 1"),
        ({"probe": 0.1}, "probe must be a Probe"),
        (
            {"holdout": 1.0},
            "Plan: holdout must be a share of players: at least 0 and less than 1; got 1.0. "
            "Use 0 for no holdout, or a share such as 0.1.",
        ),
        ({"holdout": -0.1}, "holdout must be a share of players: at least 0"),
        ({"holdout": "a tenth"}, "Plan: holdout must be a number; got 'a tenth'"),
        (
            {"overlap": 1.0},
            "Plan: overlap must be a share of decisions: at least 0 and less than 1; got 1.0. "
            "Use 0 for no overlap, or a share such as 0.05.",
        ),
        ({"overlap": -0.1}, "overlap must be a share of decisions: at least 0"),
        ({"overlap": "some"}, "Plan: overlap must be a number; got 'some'"),
        (
            {"overlap": 0.1, "policies": [entice.EqualPay()]},
            "overlap can't be used with EqualPay, which compares ratings under equal payments",
        ),
        ({"holdout": 0.1, "holdout_feeds_averages": 0}, "feeds_averages must be true or false"),
        ({"probe": entice.Probe(amount=5)}, "probe.amount must be at most the 4 stars"),
        (
            {"probe": entice.Probe(amount=1), "policies": [entice.EqualPay()]},
            "probe can't be used with EqualPay, which compares ratings under equal payments",
        ),
        ({"price": 0.8}, "price must be a LearnedPrice; got 0.8"),
        (
            {"price": entice.LearnedPrice(), "policies": [entice.EqualPay()]},
            "price can't be used with EqualPay, which pays the same for all items it compares",
        ),
        ({"probe": entice.Probe(amount=1e-12)}, "probe.amount must cost at least one minor unit"),
        ({"policies": [entice.UCB(count_in_flight=True)]}, "count_in_flight cannot be set"),
        (
            {"policies": [entice.EqualPay()], "probe": entice.Probe()},
            "probe can't be used with EqualPay",
        ),
    ],
)
def test_invalid_plans_are_rejected(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        make_plan(**changes)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Spread(centre=5, width=1), "centre must be more than 1.02 and less than 4.98"),
        (lambda: Spread(centre=4, width=0), "width must be more than 0"),
        (lambda: Spread(centre=4, width=1, shape="flat"), 'must be "normal" or "uniform"'),
        (lambda: PlanSegments([1.5, -0.5], [[4, 3]] * 2), "greater than 0"),
        (lambda: PlanSegments([0.5, 0.6], [[4, 3]] * 2), "their sum must be 1"),
        (lambda: PlanSegments([1 / 33] * 33, [[4, 3]] * 33), "at most 32 segments"),
        (lambda: PlanSegments([0.5, 0.5], [[4, 3]]), "must be 2 lists"),
        (lambda: PlanSegments([0.5, 0.5], [[4, 3], [4]]), "a number for each item"),
        (lambda: PlanSegments([1], [[4, 6]]), "means[0][1] must be from 1.02 to 4.98 stars; got 6"),
        (lambda: PlanSegments([1], [[4, 3]], known=1), "known must be true or false"),
        (lambda: StarCounts(), "must have either counts"),
        (lambda: StarCounts(counts=[[1, 2, 3]]), "lists of 5 numbers"),
        (lambda: StarCounts(counts=[[1, 2, 3, 4, -1]]), "must not be negative"),
        (lambda: StarCounts(counts=[[0, 0, 0, 0, 0]] * 2), "and not all 0"),
        (lambda: StarCounts(path=3), "path must be text"),
        (lambda: StarCounts(counts=[[1, 1, 1, 1, 1]] * 2, category="a"), "requires a path"),
    ],
)
def test_invalid_beliefs_are_rejected(make: Any, words: str) -> None:
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
        ('rating_delay = { kind = "exponent", mean = 3 }', "Did you mean 'exponential'?"),
        ("probe = 0.1", "probe must be a table of settings"),
        ("price = 0.8", "price must be a table with a kind"),
        ('price = { kind = "learnt" }', "Did you mean 'learned'?"),
        (
            'price = { kind = "learned", explore = 1 }',
            "explore must be a share of offers: at least 0 and less than 1; got 1.0. Use 0",
        ),
        ('price = { kind = "learned", acceptance = 80 }', "acceptance must be a share of players"),
    ],
)
def test_invalid_toml_is_rejected(text: str, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        Plan.from_toml(text)


# Beliefs


def test_shares_have_the_given_means_and_maximum_entropy() -> None:
    wanted = np.array([1.02, 2.0, 3.0, 4.1, 4.98])
    shares = shares_with_means(wanted)
    np.testing.assert_allclose(shares @ STARS, wanted, atol=1e-9)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    ratios = shares[:, 1:] / shares[:, :-1]  # maximum entropy: a geometric sequence
    np.testing.assert_allclose(ratios, ratios[:, :1].repeat(4, axis=1), rtol=1e-6)


def test_spreads_have_the_given_centre_and_width() -> None:
    rng = np.random.default_rng(0)
    drawn = Spread(centre=3.5, width=0.4).sampler(4000).draw(rng) @ STARS
    # 4,000 draws: standard errors 0.0063 (mean) and 0.0045 (width); 5 of them: one in a million
    assert drawn.mean() == pytest.approx(3.5, abs=0.032)
    assert drawn.std() == pytest.approx(0.4, abs=0.023)
    flat = Spread(centre=4.5, width=1, shape="uniform").sampler(4000).draw(rng) @ STARS
    assert flat.min() >= 3.5 - 1e-9
    assert 4.97 < flat.max() <= 4.98 + 1e-9
    near_the_end = Spread(centre=4.9, width=1.0).sampler(2000).draw(rng) @ STARS
    assert near_the_end.max() <= 4.98 + 1e-9
    assert (
        len(np.unique(near_the_end.round(6))) > 1990
    )  # draws outside the scale are repeated, not clipped


def test_more_counts_leave_less_uncertainty() -> None:
    few, many = (
        StarCounts(counts=(np.array([[1, 0, 2, 3, 4], [0, 0, 1, 5, 4]]) * n).tolist()).sampler(2)
        for n in (1, 100)
    )
    means = {
        n: np.array([d.draw(np.random.default_rng(i)) @ STARS for i in range(300)])
        for n, d in ((1, few), (100, many))
    }
    assert means[1].std(axis=0).min() > 5 * means[100].std(axis=0).max()
    # 300 draws with a deviation of 0.04: a standard error of 0.0024, and a prior bias of 0.001
    np.testing.assert_allclose(means[100].mean(axis=0), [3.9, 4.3], atol=0.015)
    assert many.centre == pytest.approx(4.1)


def test_items_are_drawn_from_a_file_of_star_counts(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(COUNTED)
    sampler = StarCounts(path=str(path), category="dryer").sampler(2)
    assert sampler.counts.tolist() == [[5, 5, 10, 40, 90], [10, 5, 10, 30, 70]]
    assert sampler.centre == pytest.approx((15 + 20 + 60 + 280 + 800) / 275)
    assert sampler.draw(np.random.default_rng(0)).shape == (2, 5)
    assert len(StarCounts(path=str(path)).sampler(3).counts) == 3


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
            "category is unknown; got 'a'. Known categories: b.",
        ),
    ],
)
def test_invalid_star_count_files_are_rejected(
    text: str | None, changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "counts.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=re.escape(words)):
        StarCounts(path=str(path), **changes).sampler(3)


def test_paths_in_a_file_are_relative_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "counts.csv").write_text(
        "incentivized,stars_1,stars_2,stars_3,stars_4,stars_5\n"
        "0,5,5,10,30,50\n1,0,0,0,0,99\n0,5,5,20,40,30\n"
    )
    (tmp_path / "sub" / "plan.toml").write_text(
        "arms = 2\nvisitors_a_day = 10\ndays = 2\nprice_of_a_star = 1\ndrift = 0\n"
        'star_counts = { path = "counts.csv" }\n'
    )
    sampler = Plan.from_file(tmp_path / "sub" / "plan.toml").item_sampler()
    assert len(sampler.counts) == 2  # type: ignore[union-attr]  # paid ratings are ignored


def test_each_run_has_its_own_world_which_all_policies_share() -> None:
    worlds = WorldSampler(make_plan(drift=(0.2, 0.8)))
    first, second = worlds.draw(0), worlds.draw(1)
    assert 0.2 <= first.slope <= 0.8
    assert first.slope != second.slope
    assert not np.allclose(first.means, second.means)
    np.testing.assert_array_equal(worlds.draw(0).shares, first.shares)
    found = forecast(make_plan(drift=(0.2, 0.8)))
    for column in ("slope", "best_mean"):
        np.testing.assert_array_equal(found.run_values(0, column), found.run_values(1, column))
    assert found.run_values(0, "slope")[0] == first.slope
