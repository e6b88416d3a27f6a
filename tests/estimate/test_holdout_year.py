"""A simulated year of a campaign with a holdout: the readout brackets the true effect every day.

Seeds are fixed. If a test could fail by chance, its docstring gives the probability.
"""

from __future__ import annotations

import pytest
from holdout_year import Year, simulate_year, year_plan
from sizes import sized

import entice
from entice.planner.runner import PlanRunner

pytestmark = pytest.mark.usefixtures("unmeasured")


@pytest.fixture(scope="module")
def plain_years() -> list[Year]:
    """Years without drift: the campaign explores at its players' expense."""
    runner = PlanRunner(year_plan(drift=0.0))
    return [simulate_year(runner, run) for run in range(sized(6, 40))]


@pytest.fixture(scope="module")
def grateful_years() -> list[Year]:
    """Years in which payments raise ratings, and many are paid at random."""
    runner = PlanRunner(year_plan(drift=1.0, probe=entice.Probe(share=0.5, amount=1.0)))
    return [simulate_year(runner, run) for run in range(sized(6, 40))]


def test_the_interval_brackets_the_truth_on_every_day(
    plain_years: list[Year], grateful_years: list[Year]
) -> None:
    """At 95 % confidence more than 3 of 12 years may miss with a probability of 0.002.

    The control, a fixed-n interval, misses in 4 of 10 years: fewer than 2 of 12 have a probability
    of 0.02.
    """
    years = plain_years + grateful_years
    assert sum(year.missed for year in years) <= sized(3, 12)
    assert sum(year.missed_by_fixed_n for year in years) >= sized(2, 16)


def test_payments_that_raise_ratings_look_like_an_effect(grateful_years: list[Year]) -> None:
    """The true difference is drift alone, between 0.01 and 0.14 stars; most years show it.

    The readout of a sound split stays sound: a false alarm has a probability of 0.001 per year.
    """
    verdicts = [year.effect.verdict for year in grateful_years]
    assert verdicts.count("better") >= len(verdicts) / 2
    assert all(year.truth > 0 for year in grateful_years)
    better = [year.effect for year in grateful_years if year.effect.verdict == "better"]
    assert all((effect.cost_per_star or 0) > 0 for effect in better)


def test_gains_through_shared_averages_are_missed(plain_years: list[Year]) -> None:
    """A campaign that finds a better item for everybody shows no difference.

    In such years the items taken are more than 0.2 stars better than without a campaign, and the
    whole interval is below that gain.
    """
    helped = [year for year in plain_years if year.gain > 0.2]
    assert helped
    for year in helped:
        assert year.effect.verdict == "no_clear_difference"
        assert year.effect.high is not None
        assert year.effect.high < year.gain
