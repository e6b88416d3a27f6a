"""Compare plans with live campaigns that use the real rules and store.

Each live campaign runs in a world drawn from the plan's belief, on a simulated clock, with visitors
implemented independently of the planner (NumPy, one visitor at a time). If the plan is right, a
live campaign's spending and lost stars are those of one more run of the plan, so their ranks among
the plan's runs are uniform. A Kolmogorov–Smirnov test checks this.

    make plan-against-live     # shares of raters, windows, policies and options, 20 campaigns each

Prints a table in Markdown, with the number of live campaigns whose spending and lost stars are
within the range of nine in ten runs of the plan. `--certain` is the control: campaigns that count
pending ratings as certain, as under version 1 of the rules.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from scipy import stats  # type: ignore[import-untyped]
from writer_fixtures import Service, hashed

import entice
from entice.planner.belief import DrawnWorld, Spread
from entice.planner.runner import WorldSampler
from entice.planner.spec import Plan
from entice.service.domain.campaign import Campaign
from entice.service.domain.commands import (
    Accept,
    CreateCampaign,
    Decline,
    EnterRatings,
    MakeOffer,
    Organic,
    Rate,
)
from entice.service.domain.rules import CampaignRules
from entice.service.domain.spec import CampaignSpec

DAY = 24 * 3600
SHARES = (1.0, 0.4, 0.05)
WINDOWS = (1, 30)
POLICIES: tuple[Any, ...] = (
    entice.UCB(), entice.ThompsonSampling(), entice.EpsilonGreedy(c=5),
    entice.DriftCorrectedThompson(),
)  # fmt: skip
ERROR = 1e-3
"""The probability that a correct plan fails any of the tests of one table."""
SEGMENT_SHARES = (0.5, 0.3, 0.2)
SEGMENT_MEANS = (
    (4.5, 3.6, 4.0, 3.3, 4.1, 3.8), (3.5, 4.6, 4.0, 3.9, 3.4, 3.8), (3.7, 3.6, 4.1, 3.3, 4.1, 4.7),
)  # fmt: skip
RESPONSE = entice.LogisticResponse(-4, by_reward=0.8, by_payment=2)
MEAN_DELAY, ACCEPTANCE_WIDTH, ACCEPTANCE_MIDPOINT = 0.25, 0.05, 0.1
"""The delay of ratings in days; the acceptance curve in stars."""


class Cell(NamedTuple):
    """The settings of campaigns that differ only in their worlds."""

    share: float
    window: int
    """Days."""
    policy: Any
    holdout: float = 0.0
    overlap: float = 0.0
    response: entice.LogisticResponse | None = None
    """Instead of `share`."""
    segments: bool | None = None
    """Whether the campaign knows the segments of its visitors; None if there are none."""
    price: entice.LearnedPrice | None = None

    @property
    def options(self) -> str:
        """The options of the cell, for the table."""
        known = {True: "segments", False: "unknown segments", None: ""}[self.segments]
        found = [f"holdout {self.holdout:g}" if self.holdout else "", known]
        found += [f"overlap {self.overlap:g}" if self.overlap else ""]
        if self.price is not None:
            found.append(f"learned price {100 * self.price.acceptance:g} %")
        return ", ".join(filter(None, [*found, "response" if self.response else ""])) or "none"


class Measured(NamedTuple):
    """The outcome of a campaign or of a run of the plan."""

    spend: float
    lost: float
    leads: bool
    """Whether the right item leads at the end."""


class Compared(NamedTuple):
    """The live campaigns and the plan's runs of a cell, with p-values."""

    cell: Cell
    live: list[Measured]
    planned: list[Measured]
    spend_p: float
    lost_p: float
    leads_p: float

    def within(self, name: str) -> int:
        """Return how many live values are between the 5 % and 95 % quantiles of the plan's runs."""
        runs = [getattr(measured, name) for measured in self.planned]
        low, high = np.quantile(runs, 0.05), np.quantile(runs, 0.95)
        return sum(low <= getattr(measured, name) <= high for measured in self.live)


OPTIONS = [
    cell
    for policy in (entice.UCB(), entice.ThompsonSampling())
    for cell in (
        Cell(0.4, 30, policy, segments=True),
        Cell(0.4, 30, policy, segments=False),
        Cell(0.4, 30, policy, overlap=0.05),
        Cell(0.4, 30, policy, response=RESPONSE),
    )
]
HOLDOUTS = [Cell(0.4, 30, policy, holdout=0.3) for policy in POLICIES]
LEARNED = [
    Cell(0.4, 30, policy, price=entice.LearnedPrice(acceptance=0.6, explore=0.1))
    for policy in POLICIES
]


def plan_of(cell: Cell, visitors: int, runs: int) -> Plan:
    """Return the plan of a cell: six items, 200 visitors a day, 3.00 per star, drift 0 to 1."""
    segments, spread = None, Spread(centre=4.0, width=0.5)
    if cell.segments is not None:
        segments = entice.PlanSegments(SEGMENT_SHARES, SEGMENT_MEANS, known=cell.segments)
    return Plan(
        arms=6, spread=None if segments else spread, segments=segments, visitors_a_day=200,
        days=visitors // 200, price_of_a_star=3.0, currency="EUR",
        share_who_rate=1.0 if cell.response else cell.share, drift=[0, 1], overlap=cell.overlap,
        response=cell.response,
        rating_delay=entice.ExponentialDelay(mean=MEAN_DELAY),
        acceptance=entice.LogisticAcceptance(midpoint=ACCEPTANCE_MIDPOINT, width=ACCEPTANCE_WIDTH),
        policies=[cell.policy], rating_window=cell.window * DAY, replications=runs, seed=11,
        holdout=cell.holdout, price=cell.price,
    )  # fmt: skip


class LiveCampaign:
    """A campaign of the service and its visitors.

    Attributes
    ----------
    segment : int
        The segment of the current visitor.
    """

    def __init__(self, service: Service, plan: Plan, world: DrawnWorld, seed: int) -> None:
        self.world, self.plan = world, plan
        self.items = [f"item-{i}" for i in range(len(world.means))]
        means = world.means.reshape(len(self.items), -1)
        self.gaps = means.max(axis=0) - means
        self.segment, self.segments = 0, means.shape[1]
        self.random = np.random.default_rng((seed, 2))
        policy: Any = plan.policies[0]
        spec = CampaignSpec(
            name="live", arms=self.items, policy=policy, budget=10**12,
            price_of_a_star=300, unrated_shows=plan.unrated_stars,
            rating_window=plan.rating_window, seed=seed, holdout=plan.holdout,
            overlap=plan.overlap, segments=[f"s{s}" for s in range(plan.known_segments)],
            price=plan.price,
        )  # fmt: skip
        self.id = service.do(CreateCampaign(spec))["id"]
        self.due: list[tuple[int, int, Any]] = []
        """The times of pending ratings, and the commands that send them."""
        self.lost, self.leaders = 0.0, [0] * self.segments

    @property
    def segment_name(self) -> str | None:
        """The segment that a request names, if the campaign knows it."""
        return f"s{self.segment}" if self.plan.known_segments else None

    def next_visitor(self) -> None:
        """Draw the segment of the next visitor."""
        if self.segments > 1:
            self.segment = int(self.random.choice(self.segments, p=SEGMENT_SHARES))

    def visit(self, at: int, offer: Any) -> Any:
        """Return the command of a visitor's response to an offer, and schedule the rating."""
        paid, item = offer["amount"] / 300, self.items.index(offer["arm"])
        own = self.leaders[self.segment] = self.items.index(offer["greedy_arm"])
        accepts = 1 / (1 + math.exp(-(paid - ACCEPTANCE_MIDPOINT) / ACCEPTANCE_WIDTH))
        response: Any = Accept(offer["id"])
        declined = offer["arm"] != offer["greedy_arm"] and self.random.random() >= accepts
        if declined:
            response, paid, item = Decline(offer["id"]), 0.0, own
        self.lost += self.gaps[item, self.segment]
        shares = self.world.shares[item * self.segments + self.segment]
        luck, given = self.random.random(), self.plan.response
        if given is not None or luck < self.plan.share_who_rate:
            stars = self.random.choice(5, p=shares) + 1
            if given is not None:
                odds = given.base + given.by_reward * stars + given.by_payment * paid
                if luck >= 1 / (1 + math.exp(-odds)):
                    return response
            raised = min(stars + self.world.slope * paid, 5.0)
            rating = int(raised) + int(self.random.random() < raised % 1)
            after = int(self.random.exponential(MEAN_DELAY) * DAY * 1_000_000)
            command: Any = Rate(offer["id"], rating)
            if declined:
                organic = Organic(self.items[item], rating, self.segment_name)
                command = EnterRatings(self.id, [organic])
            heapq.heappush(self.due, (at + after, offer["decision"], command))
        return response

    def ratings_until(self, at: int) -> Iterator[Any]:
        """Yield the commands of ratings due by a time, in order."""
        while self.due and self.due[0][0] <= at:
            yield heapq.heappop(self.due)[2]

    def measured(self, service: Service) -> Measured:
        """Return the outcome so far."""
        spent = service.money(self.id)[2] / 100
        last = self.gaps[self.leaders, range(self.segments)]
        return Measured(spent, self.lost, bool((last <= self.plan.close_enough).all()))


def run_live(
    service: Service, cells: Sequence[Cell], visitors: int, runs: int, campaigns: int
) -> dict[Cell, list[Measured]]:
    """Run the campaigns of all cells concurrently, so that many share a transaction."""
    found: list[tuple[Cell, LiveCampaign]] = []
    for cell in cells:
        plan = plan_of(cell, visitors, runs)
        worlds = WorldSampler(plan)
        # Worlds from the plan's belief that none of its runs has drawn.
        drawn = [worlds.draw(runs + i) for i in range(campaigns)]
        found += [
            (cell, LiveCampaign(service, plan, world, 1000 + i)) for i, world in enumerate(drawn)
        ]
    began = service.clock.at
    for i in range(visitors):
        service.clock.at = at = began + i * DAY * 1_000_000 // 200
        submit = service.writer.submit
        waiting = [submit(c) for _, live in found for c in live.ratings_until(at)]
        for _, live in found:
            live.next_visitor()
        offers = [
            (live, submit(MakeOffer(live.id, hashed(i), segment=live.segment_name)))
            for _, live in found
        ]
        waiting += [submit(live.visit(at, json.loads(o.result(600).body))) for live, o in offers]
        for future in waiting:
            future.result(600)
    measured: dict[Cell, list[Measured]] = {cell: [] for cell in cells}
    for cell, live in found:
        measured[cell].append(live.measured(service))
    return measured


def run_plan(cell: Cell, visitors: int, runs: int) -> list[Measured]:
    """Run the plan of a cell."""
    rows = entice.forecast(plan_of(cell, visitors, runs), progress=False).runs
    leads = (~rows["stuck"]).to_list()
    return [
        Measured(*row)
        for row in zip(rows["needed"].to_list(), rows["stars_lost"].to_list(), leads, strict=True)
    ]


def uniformity(live: Sequence[float], planned: Sequence[float]) -> float:
    """Return the p-value of the live values' ranks among the plan's runs."""
    runs = np.sort(np.array(planned))
    below = np.searchsorted(runs, live, side="left")
    upto = np.searchsorted(runs, live, side="right")
    ranks = (below + upto + 1) / (2 * (len(runs) + 1))
    return float(stats.kstest(ranks, "uniform").pvalue)


def compare(cell: Cell, live: list[Measured], planned: list[Measured]) -> Compared:
    """Compare live campaigns with the plan's runs."""

    def column(measured: list[Measured], name: str) -> npt.NDArray[np.float64]:
        return np.array([getattr(one, name) for one in measured], dtype=np.float64)

    right = stats.fisher_exact(
        [
            [column(m, "leads").sum(), len(m) - column(m, "leads").sum()]
            for m in (live, planned)
        ]
    ).pvalue  # fmt: skip
    return Compared(
        cell,
        live,
        planned,
        uniformity(column(live, "spend").tolist(), column(planned, "spend").tolist()),
        uniformity(column(live, "lost").tolist(), column(planned, "lost").tolist()),
        float(right),
    )


def run(
    cells: Sequence[Cell], visitors: int, runs: int, campaigns: int, folder: Path
) -> list[Compared]:
    """Run campaigns and plans, and compare them cell by cell."""
    service = Service(folder / "entice.db")
    try:
        live = run_live(service, cells, visitors, runs, campaigns)
    finally:
        service.close()
    return [compare(cell, live[cell], run_plan(cell, visitors, runs)) for cell in cells]


def disagreeing(compared: Sequence[Compared]) -> list[Compared]:
    """Return the cells in which plan and live campaigns differ significantly."""
    threshold = ERROR / (3 * len(compared))
    return [c for c in compared if min(c.spend_p, c.lost_p, c.leads_p) < threshold]


@contextmanager
def certain_counting() -> Iterator[None]:
    """Run campaigns under version 1 of the rules: the control."""
    begin = Campaign.create.__func__  # type: ignore[attr-defined]

    def under_old_rules(cls: Any, name: str, spec: CampaignSpec, at: int) -> Campaign:
        campaign: Campaign = begin(cls, name, spec, at, 1)
        return campaign

    with (
        patch.object(Campaign, "create", classmethod(under_old_rules)),
        patch.object(CampaignRules, "upgrade", lambda rules, at: None),
    ):
        yield


def table(compared: Sequence[Compared]) -> str:
    """Return a comparison as a Markdown table."""
    lines = [
        "| share who rate | window | policy | options | spend: live, plan | within | KS p | "
        "lost stars: live, plan | within | KS p | right item leads: live, plan | p |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for c in compared:
        values = []
        for name in ("spend", "lost"):
            live, planned = (
                np.median([getattr(m, name) for m in ms]) for ms in (c.live, c.planned)
            )
            values.append(f"{live:,.0f}, {planned:,.0f} | {c.within(name)} of {len(c.live)}")
        leads = [np.mean([m.leads for m in ms]) for ms in (c.live, c.planned)]
        lines.append(
            f"| {c.cell.share:g} | {c.cell.window} d | {c.cell.policy.label} | "
            f"{c.cell.options} | {values[0]} | {c.spend_p:.2g} | {values[1]} | {c.lost_p:.2g} | "
            f"{leads[0]:.2f}, {leads[1]:.2f} | {c.leads_p:.2g} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Print the table; return 1 if plan and live campaigns disagree in some cell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--visitors", type=int, default=3000)
    parser.add_argument("--campaigns", type=int, default=20, help="Live campaigns in each cell.")
    parser.add_argument("--runs", type=int, default=400, help="Runs of each plan.")
    parser.add_argument("--options", action="store_true", help="Only cells with other options.")
    parser.add_argument("--certain", action="store_true", help="Run the control, which must fail.")
    parser.add_argument(
        "--learned-price", action="store_true", help="Run only the rows with a learned price."
    )
    options = parser.parse_args()
    cells = [Cell(s, w, p) for s in SHARES for w in WINDOWS for p in POLICIES]
    cells += [*HOLDOUTS, *OPTIONS, *LEARNED]
    if options.options:
        cells = [*HOLDOUTS, *OPTIONS, *LEARNED]
    if options.learned_price:
        cells = LEARNED
    settings = options.visitors, options.runs, options.campaigns
    with tempfile.TemporaryDirectory() as folder:
        if options.certain:
            with certain_counting():
                compared = run(cells, *settings, Path(folder))
        else:
            compared = run(cells, *settings, Path(folder))
    print(table(compared))
    wrong = disagreeing(compared)
    print(
        f"\n{len(wrong)} of {len(compared)} cells disagree, at an error probability of {ERROR:g} "
        "for the whole table."
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
