"""The `Forecast` of a plan, computed from its runs, and the functions that run plans."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

import entice
from entice.atomic_file import atomic_file
from entice.errors import InputError
from entice.extras import require
from entice.model.learned_price import LearnedPrice
from entice.model.probe import Probe
from entice.model.settings import RATING_WINDOW, PolicyScale
from entice.parallel import thread_count
from entice.planner.belief import DrawnWorld, Spread, StarCounts
from entice.planner.outcome import Outcome
from entice.planner.runner import PlanRun, PlanRunner
from entice.planner.segments import PlanSegments
from entice.planner.spec import Plan
from entice.policies import Policy
from entice.progress import Report, reporting
from entice.study.running.output_folder import output_folder
from entice.worlds.delays import Delay
from entice.worlds.players import Acceptance, AlwaysAccept
from entice.worlds.response import Response

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]

_ALL_ACCEPT = AlwaysAccept()
_RESAMPLES = 200
_REQUIRED = {
    "visitors_a_day": "Set it to the number of visitors per day.",
    "days": "Set it to the number of days that the campaign runs.",
    "price_of_a_star": "Set it to the cost of a payment worth one star.",
    "drift": "Set it to the stars by which a payment worth one star raises a rating: a pair such "
    "as [0, 1] if it is unknown, or one number. 0 is no drift.",
}
"""The settings that `plan` requires, and what they are."""
SUMMARISED = (
    "spend", "stars_lost", "share_lost", "cost", "lead_day", "stuck", "needed", "budget_day",
    "share_rated",
)  # fmt: skip
QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.50, "q75": 0.75, "q95": 0.95}


def plan(
    *,
    visitors_a_day: int | None = None,
    days: int | None = None,
    price_of_a_star: float | None = None,
    drift: float | Sequence[float] | None = None,
    arms: int | None = None,
    spread: Spread | None = None,
    star_counts: StarCounts | None = None,
    segments: PlanSegments | None = None,
    currency: str = "",
    currency_digits: int | None = None,
    share_who_rate: float = 1.0,
    rating_delay: float | Delay = 0.0,
    acceptance: Acceptance = _ALL_ACCEPT,
    policies: Sequence[Policy] | None = None,
    budget: float | None = None,
    confidence: float = 0.9,
    unrated_shows: float | None = None,
    close_enough: float = 0.05,
    policy_sees: PolicyScale = "stars",
    rating_window: int = RATING_WINDOW,
    late_ratings: bool = True,
    margin: float = 0.0,
    cap_per_offer: float | None = None,
    cap_per_player: float | None = None,
    pace_over: int | None = None,
    probe: Probe | None = None,
    overlap: float = 0.0,
    holdout: float = 0.0,
    holdout_feeds_averages: bool = True,
    price: LearnedPrice | None = None,
    response: Response | None = None,
    replications: int = 400,
    seed: int | None = None,
    threads: int | None = None,
    progress: bool | Report | None = None,
) -> Forecast:
    """Forecast the cost of exploration, and how soon the best item is found, before a launch.

    Parameters not listed here are those of `Plan`. `visitors_a_day`, `days`, `price_of_a_star` and
    `drift` are required.

    Parameters
    ----------
    seed
        Random seed. Drawn, printed and recorded if omitted.
    threads, progress
        As in `entice.simulate`. Results do not depend on them.

    >>> import entice
    >>> forecast = entice.plan(
    ...     arms=4, spread=entice.Spread(centre=4.1, width=0.45), visitors_a_day=50, days=10,
    ...     price_of_a_star=2.00, drift=[0, 1], policies=[entice.UCB(), entice.Greedy()],
    ...     replications=20, seed=7)
    >>> forecast.runs.height  # 20 runs of each of 2 policies
    40
    """
    required = {
        "visitors_a_day": visitors_a_day, "days": days, "price_of_a_star": price_of_a_star,
        "drift": drift,
    }  # fmt: skip
    for name, given in required.items():
        if given is None:
            todo = _REQUIRED[name]
            raise InputError(f"entice.plan: {name}", "must be given", given=given, todo=todo)
    spec = Plan(
        arms=arms,
        spread=spread,
        star_counts=star_counts,
        segments=segments,
        visitors_a_day=visitors_a_day,  # type: ignore[arg-type]  # checked above
        days=days,  # type: ignore[arg-type]
        price_of_a_star=price_of_a_star,  # type: ignore[arg-type]
        currency=currency,
        currency_digits=currency_digits,
        share_who_rate=share_who_rate,
        rating_delay=rating_delay,
        acceptance=acceptance,
        drift=drift,  # type: ignore[arg-type]  # one number stands for a pair
        policies=policies,  # type: ignore[arg-type]  # None: the default ones
        budget=budget,
        confidence=confidence,
        unrated_shows=unrated_shows,
        close_enough=close_enough,
        policy_sees=policy_sees,
        rating_window=rating_window,
        late_ratings=late_ratings,
        margin=margin,
        cap_per_offer=cap_per_offer,
        cap_per_player=cap_per_player,
        pace_over=pace_over,
        probe=probe,
        overlap=overlap,
        holdout=holdout,
        holdout_feeds_averages=holdout_feeds_averages,
        price=price,
        response=response,
        replications=replications,
        seed=seed,
    )
    return forecast(spec, threads=threads, progress=progress)


def forecast(
    plan: Plan, *, threads: int | None = None, progress: bool | Report | None = None
) -> Forecast:
    """Run a plan; `threads` and `progress` are those of `entice.simulate`."""
    threads = thread_count(threads)
    if plan.seed is None:
        plan = plan.with_seed()
        print(f"entice: seed {plan.seed} (drawn; pass seed={plan.seed} to repeat)", file=sys.stderr)
    with reporting(progress, "Planning") as report:
        return Forecast(plan, PlanRunner(plan).run_all(threads, report))


class Forecast:
    """The simulated costs and results of a plan.

    Attributes
    ----------
    plan : Plan
        The plan, including its seed.
    runs : polars.DataFrame
        One row for each policy and run: `policy`, `policy_index`, `run`, the drawn world (`slope`,
        `best_mean`), `spend`, `stars_lost`, `share_lost`, `cost` (spend plus lost stars),
        `lead_day` (the day from which a best item leads until the end; null if none does), `stuck`
        (whether a wrong item leads at the end), `needed` (spending without the budget),
        `budget_day` (the day on which the budget first changes an offer; null if it never does) and
        `share_rated` (the share of visitors who rate). With segments, the best item is that of the
        visitor's segment, and a wrong item leads if it does in any segment.
    days : polars.DataFrame
        One row for each policy and day: quantiles of the cumulative spending without the budget
        (`needed_at_confidence` for the plan's confidence), and the share of runs in which a best
        item leads.
    """

    def __init__(self, plan: Plan, runs: Sequence[PlanRun]) -> None:
        self.plan = plan
        worlds = [run.world for run in runs]
        by_policy = [[run.outcomes[p] for run in runs] for p in range(len(plan.policies))]
        self.runs = pl.concat(_runs(plan, p, worlds, found) for p, found in enumerate(by_policy))
        self.days = pl.concat(_days(plan, p, found) for p, found in enumerate(by_policy))

    def __repr__(self) -> str:
        return (
            f"<Forecast: {len(self.plan.policies)} policies × {self.plan.replications} runs × "
            f"{self.plan.days} days, seed {self.plan.seed}>"
        )

    def __str__(self) -> str:
        """Return the output of `entice plan`."""
        from rich.console import Console

        from entice.planner.forecast_table import print_forecast

        console = Console(width=100, color_system=None, force_jupyter=False, highlight=False)
        with console.capture() as capture:
            print_forecast(self, console)
        return capture.get().rstrip()

    def _repr_html_(self) -> str:
        from entice.planner.forecast_table import forecast_html

        return forecast_html(self)

    def run_values(self, policy: int, column: str) -> Floats:
        """Return a column of a policy's runs; the day of an event that never happens is inf."""
        values = self.runs.filter(policy_index=policy)[column].cast(pl.Float64)
        return values.fill_null(math.inf).to_numpy()

    def at_confidence(self, policy: int, column: str) -> float:
        """Return the quantile of a column at the plan's confidence."""
        return float(quantile(self.run_values(policy, column), self.plan.confidence))

    def median(self, policy: int, column: str) -> float:
        """Return the median of a column."""
        return float(quantile(self.run_values(policy, column), 0.5))

    @property
    def ranking(self) -> list[int]:
        """The indices of the policies, the recommended one first.

        They are ordered by total cost at the plan's confidence: payments plus lost stars at the
        price of a star, within the budget if there is one. Ties are broken by payments without a
        budget.
        """
        policies = range(len(self.plan.policies))
        return sorted(
            policies, key=lambda p: (self.at_confidence(p, "cost"), self.at_confidence(p, "needed"))
        )

    @property
    def recommended(self) -> Policy:
        """The recommended policy."""
        return self.plan.policies[self.ranking[0]]

    @property
    def required_budget(self) -> float:
        """The budget that the recommended policy needs at the plan's confidence."""
        return self.at_confidence(self.ranking[0], "needed")

    def first_place_shares(
        self, policies: Sequence[int] | None = None, runs: npt.NDArray[np.bool_] | None = None
    ) -> dict[int, float]:
        """Return how often each policy ranks first in bootstrap resamples of the runs.

        All policies run in the same worlds, so whole worlds are resampled. By default all policies
        and runs are compared.
        """
        compared = list(range(len(self.plan.policies)) if policies is None else policies)
        costs = np.stack([self.run_values(p, "cost") for p in compared])
        costs = costs if runs is None else costs[:, runs]
        assert self.plan.seed is not None
        rng = np.random.default_rng((self.plan.seed, _RESAMPLES))
        count = costs.shape[1]
        picks = [costs[:, rng.integers(count, size=count)] for _ in range(_RESAMPLES)]
        firsts = [int(np.argmin(quantile(pick, self.plan.confidence))) for pick in picks]
        shares = {p: firsts.count(i) / _RESAMPLES for i, p in enumerate(compared)}
        return {p: shares[p] for p in self.ranking if p in shares}

    def summary(self) -> pl.DataFrame:
        """Return a summary of the runs, with a row for each policy and quantity.

        For days, `never` is the share of runs in which the event does not happen; means are over
        the others.
        """
        rows = []
        for p, policy in enumerate(self.plan.policies):
            for column in SUMMARISED:
                values = self.run_values(p, column)
                happens = np.isfinite(values)
                row: dict[str, Any] = {"policy": policy.label, "quantity": column}
                row["mean"] = float(values[happens].mean()) if happens.any() else None
                for name, share in QUANTILES.items():
                    row[name] = _or_none(quantile(values, share))
                row["at_confidence"] = _or_none(quantile(values, self.plan.confidence))
                row["never"] = float(1 - happens.mean())
                rows.append(row | {"policy_index": p})
        return pl.DataFrame(rows, infer_schema_length=None)

    def plot(self) -> Figure:
        """Plot the cost of each policy, its spending by day, and when the best item leads."""
        require("plot")
        from entice.planner.figure import plot_forecast

        return plot_forecast(self)

    def to_json(self) -> str:
        """Return the plan, its summary and the distributions as JSON."""
        from entice.planner.summary_text import summary_sentences

        first_place_shares = self.first_place_shares()
        content = {
            "plan": self.plan.to_plain(),
            "entice": entice.__version__,
            "answer": summary_sentences(self),
            "recommended": self.recommended.label,
            "recommended_index": self.ranking[0],
            "budget_for_confidence": self.required_budget,
            "comes_first": [first_place_shares[p] for p in range(len(self.plan.policies))],
            "summary": self.summary().to_dicts(),
            "days": self.days.to_dicts(),
        }
        return json.dumps(content, indent=1, ensure_ascii=False)

    def save(self, folder: str | Path) -> Path:
        """Write `plan.json`, `plan.png` and the page `plan.html` into a folder."""
        require("plot")
        from entice.planner.report import report_page

        folder = Path(folder)
        with output_folder(folder):
            figure = self.plot()
            with atomic_file(folder / "plan.json") as path:
                path.write_text(self.to_json(), encoding="utf-8")
            with atomic_file(folder / "plan.png") as path:
                figure.savefig(path, format="png")
            with atomic_file(folder / "plan.html") as path:
                path.write_text(report_page(self, figure), encoding="utf-8")
        return folder


def quantile(values: Floats, share: float) -> Any:
    """Return the smallest value, over the last axis, that this share of values does not exceed.

    The result is one of the values, never an interpolation, so "9 runs in 10 stay under it" is
    exact, and days may be infinite.

    >>> import numpy as np
    >>> from entice.planner.forecast import quantile
    >>> float(quantile(np.array([5.0, 1.0, 4.0, 2.0, 3.0]), 0.8))
    4.0
    """
    count = values.shape[-1]
    rank = max(0, math.ceil(share * count - 1e-9) - 1)
    return np.partition(values, rank, axis=-1)[..., rank]


def _runs(
    plan: Plan, p: int, worlds: Sequence[DrawnWorld], outcomes: Sequence[Outcome]
) -> pl.DataFrame:
    count = len(outcomes)
    frame = pl.DataFrame(
        {
            "policy": [plan.policies[p].label] * count,
            "policy_index": pl.Series([p] * count, dtype=pl.Int64),
            "run": pl.Series(range(count), dtype=pl.Int64),
            "slope": [world.slope for world in worlds],
            "best_mean": [float(world.means.max()) for world in worlds],
        }
        | {
            name: [getattr(outcome, name) for outcome in outcomes]
            for name in Outcome._fields
            if not name.endswith("_by_day")
        }
    )
    price = plan.price_of_a_star
    return frame.with_columns(
        cost=pl.col("spend") + price * pl.col("stars_lost"),
        stuck=pl.col("lead_day").is_infinite(),
    ).with_columns(
        pl.when(pl.col(day).is_finite()).then(pl.col(day)).cast(pl.Int64)
        for day in ("lead_day", "budget_day")
    )


def _days(plan: Plan, p: int, outcomes: Sequence[Outcome]) -> pl.DataFrame:
    needed = np.stack([outcome.needed_by_day for outcome in outcomes], axis=-1)
    leads = np.stack([outcome.leads_by_day for outcome in outcomes], axis=-1)
    shares = {**QUANTILES, "at_confidence": plan.confidence}
    return pl.DataFrame(
        {
            "policy": [plan.policies[p].label] * plan.days,
            "policy_index": pl.Series([p] * plan.days, dtype=pl.Int64),
            "day": pl.Series(range(1, plan.days + 1), dtype=pl.Int64),
        }
        | {f"needed_{name}": quantile(needed, share) for name, share in shares.items()}
        | {"leads": leads.mean(axis=-1)}
    )


def _or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
