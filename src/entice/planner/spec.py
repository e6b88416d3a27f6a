"""The `Plan` spec, and its conversion from and to TOML."""

from __future__ import annotations

import math
import secrets
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import numpy.typing as npt
import tomli_w

from entice.checks import as_number, as_seed, is_list, set_number, set_whole
from entice.errors import InputError
from entice.jit.decorators import import_path
from entice.model.learned_price import LearnedPrice
from entice.model.probe import Probe
from entice.model.settings import (
    MAX_MONEY,
    RATING_WINDOW,
    PolicyScale,
    check_probe_cost,
    check_settings,
    without_holdout_defaults,
)
from entice.money import NO_CURRENCY, Currency, read_currency
from entice.planner.belief import STARS, ItemSampler, Spread, StarCounts
from entice.planner.plan_policies import check_policies, default_policies
from entice.planner.segments import PlanSegments, SegmentMeansSampler
from entice.policies import Policy
from entice.spec_parsing import as_table, build_spec, parse_entry, read_text, without_none
from entice.user_functions import importable
from entice.worlds.delays import Delay, DelaySampler, DelaySpec, constant_delay
from entice.worlds.players import Acceptance, AlwaysAccept
from entice.worlds.response import EVERYONE, Response, ResponseKernel

MOST_VISITORS = 5_000_000
"""Limit on memory and time: runs are stored and analysed visitor by visitor."""
_MOST_DAYS = 3_650


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A planned campaign: items, visitors, payments, and the possible drift.

    Parameters
    ----------
    arms
        Number of items that visitors choose from. Optional with `star_counts.counts` and
        `segments`, which have an entry for each.
    spread
        Belief about the items' true ratings, from which each run draws: their distribution. Exactly
        one of `spread`, `star_counts` and `segments` is given.
    star_counts
        The same belief, from the counts of ratings that items have.
    segments
        The same belief for segments of visitors with known means of their own.
    visitors_a_day
        Number of visitors per day, each of whom takes one item.
    days
        Number of days.
    price_of_a_star
        Cost of a payment worth one star. A star lost by a visitor is valued the same.
    currency
        An ISO 4217 code such as "EUR", a sign such as "€", or a custom name such as "points".
        Empty: amounts are plain numbers with two decimals.
    currency_digits
        The number of decimals of a custom currency, 0 to 8.
    share_who_rate
        Share of visitors who rate their item.
    response
        Probability that a visitor rates, as a function of the stars of the visitor's experience,
        before any drift, and of the payment in stars: a `LogisticResponse`, instead of
        `share_who_rate`.
    rating_delay
        Delay of ratings in days: a number, or a distribution such as `ExponentialDelay(mean=3)`.
    acceptance
        Probability that a visitor accepts an offer, as a function of the payment in stars.
    drift
        Number of stars by which a payment worth one star raises a rating: the lowest and the
        highest possible slope, or one number. Each run draws its own.
    policies
        Policies to compare; by default UCB, Thompson sampling, ε-greedy (c = 5), equal pay with the
        expected number of ratings as its horizon, and `Greedy`, which never pays. Equal pay is left
        out if there is a probe, overlap, a learned price or known segments, Thompson sampling if
        there is overlap and more than 100 arms.
    budget
        Amount that may be spent, if it is fixed.
    confidence
        Share of runs in which the reported upper limits hold: 0.9 is nine runs in ten.
    unrated_shows
        Stars that visitors expect of an unrated item; by default those of a typical item.
    close_enough
        An item within this many stars of the best one counts as best, too.
    policy_sees
        ``"stars"``: ratings as they are, with a standard deviation of about 1, which the paper's
        policies assume. ``"zero_to_one"``: 1 to 5 stars mapped to 0 to 1. UCB and Thompson sampling
        then explore several times as much, unless `noise` is set to that of such ratings, about
        0.3.
    rating_window
        As in a campaign: how many seconds a rating is awaited.
    late_ratings
        As in a campaign: whether ratings count after the window.
    pace_over
        As in a campaign: the number of offers that the budget is spread over.
    probe
        As in a campaign: the probe that measures the drift.
    overlap
        As in a campaign: the share of arms drawn at random, so that the log can evaluate other
        policies.
    holdout
        As in a campaign: the share of visitors who get their own choice and are never paid.
    holdout_feeds_averages
        As in a campaign: whether ratings of held-out visitors count in the averages.
    price
        As in a campaign: None pays the gap; a `LearnedPrice` pays the cheapest price that a wanted
        share of visitors accepts, learned from their answers.
    margin
        As in a campaign: an amount added to every nonzero payment, in units of the currency.
    cap_per_offer
        As in a campaign: the most that one offer may cost, in units of the currency.
    cap_per_player
        As in a campaign: the most that all offers to one player may cost, in units of the currency.
        Each visitor is a different player.
    replications
        Number of runs, each in its own world.
    seed
        Random seed. Drawn and recorded if omitted.

    >>> from entice.planner.belief import Spread
    >>> from entice.planner.spec import Plan
    >>> plan = Plan(arms=8, spread=Spread(centre=4.1, width=0.45), visitors_a_day=300, days=60,
    ...             price_of_a_star=2.00, share_who_rate=0.3, drift=[0, 1])
    >>> Plan.from_toml(plan.to_toml()) == plan
    True
    """

    arms: int | None = None
    spread: Spread | None = None
    star_counts: StarCounts | None = None
    segments: PlanSegments | None = None
    visitors_a_day: int
    days: int
    price_of_a_star: float
    currency: str = ""
    currency_digits: int | None = None
    share_who_rate: float = 1.0
    rating_delay: float | Delay = 0.0
    acceptance: Acceptance = AlwaysAccept()
    drift: Sequence[float]
    policies: Sequence[Policy] = None  # type: ignore[assignment]  # None: the default ones
    budget: float | None = None
    confidence: float = 0.9
    unrated_shows: float | None = None
    close_enough: float = 0.05
    policy_sees: PolicyScale = "stars"
    rating_window: int = RATING_WINDOW
    late_ratings: bool = True
    margin: float = 0.0
    cap_per_offer: float | None = None
    cap_per_player: float | None = None
    pace_over: int | None = None
    probe: Probe | None = None
    overlap: float = 0.0
    holdout: float = 0.0
    holdout_feeds_averages: bool = True
    response: Response | None = None
    price: LearnedPrice | None = None
    replications: int = 400
    seed: int | None = None

    def __post_init__(self) -> None:
        self._set_items()
        set_whole(self, "visitors_a_day", at_least=1)
        set_whole(self, "days", at_least=1, at_most=_MOST_DAYS)
        if self.visitors > MOST_VISITORS:
            raise InputError(
                "Plan: visitors_a_day × days",
                f"must be at most {MOST_VISITORS:,}",
                given=self.visitors,
                todo="Plan fewer days or fewer visitors.",
            )
        if set_number(self, "price_of_a_star") <= 0:
            rule = "must be greater than 0"
            todo = "Use the cost of a payment worth one star, such as 2.00."
            raise InputError("Plan: price_of_a_star", rule, given=self.price_of_a_star, todo=todo)
        self._set_currency()
        if not 0 < set_number(self, "share_who_rate") <= 1:
            rule = "must be greater than 0 and at most 1"
            todo = "Use a share such as 0.3 if 30 % of visitors rate."
            raise InputError("Plan: share_who_rate", rule, given=self.share_who_rate, todo=todo)
        self._check_response()
        self._set_delay()
        if not isinstance(self.acceptance, get_args(Acceptance)):
            kinds = ", ".join(kind.__name__ for kind in get_args(Acceptance))
            raise InputError("Plan: acceptance", f"must be one of {kinds}", given=self.acceptance)
        self._set_drift()
        self._set_policies()
        self._set_goals()
        self._check_amounts()
        check_settings(self, int(STARS[0]), int(STARS[-1]))
        check_probe_cost(self, self.money.to_minor(self.price_of_a_star))

    @classmethod
    def from_toml(cls, text: str) -> Plan:
        """Read a plan from TOML; unknown settings are errors."""
        try:
            return cls.from_plain(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise InputError("the plan", f"must be TOML ({error})") from error

    @classmethod
    def from_file(cls, path: str | Path) -> Plan:
        """Read a plan from a TOML file; paths in it are relative to its folder."""
        path = Path(path)
        text = read_text("the plan file", path)
        with importable(path.resolve().parent):
            plan = cls.from_toml(text)
        if plan.star_counts is None or plan.star_counts.path is None:
            return plan
        found = str(path.parent / plan.star_counts.path)
        counts = msgspec.structs.replace(plan.star_counts, path=found)
        return msgspec.structs.replace(plan, star_counts=counts)

    def to_plain(self) -> dict[str, Any]:
        """Return the plan as plain tables, custom functions as "module:name"."""
        plain = without_none(msgspec.to_builtins(self, enc_hook=import_path))
        return without_holdout_defaults(plain)

    def to_toml(self) -> str:
        """Return the plan as TOML, custom functions as "module:name"."""
        return tomli_w.dumps(self.to_plain())

    def _repr_html_(self) -> str:
        from entice.planner.assumptions import assumptions_html

        return assumptions_html(self)

    def with_seed(self) -> Plan:
        """Return the plan with a seed: its own, or a new random one."""
        if self.seed is not None:
            return self
        return msgspec.structs.replace(self, seed=secrets.randbits(32))

    @property
    def money(self) -> Currency:
        """The currency, which converts and formats amounts."""
        assert self.currency_digits is not None
        return Currency(self.currency or NO_CURRENCY, self.currency_digits)

    @property
    def visitors(self) -> int:
        """The total number of visitors."""
        return self.visitors_a_day * self.days

    @property
    def unrated_stars(self) -> float:
        """The stars that an unrated item displays; a campaign is created with the same."""
        given = self.unrated_shows
        return given if given is not None else round(self.item_sampler().centre, 4)

    def delay_sampler(self) -> DelaySampler:
        """Return a sampler for the delays of ratings, in days."""
        if isinstance(self.rating_delay, DelaySpec):
            return self.rating_delay.sampler()
        return DelaySampler(constant_delay, (self.rating_delay,), self.rating_delay)

    def response_kernel(self) -> ResponseKernel:
        """Return the response in the form that the compiled loop runs."""
        return EVERYONE if self.response is None else self.response.kernel()

    @property
    def typical_share_who_rate(self) -> float:
        """The share of visitors who rate; with a response, that of a typical item, unpaid."""
        if self.response is None:
            return self.share_who_rate
        kernel = self.response_kernel()
        return float(kernel.probability(self.item_sampler().centre, 0.0, kernel.params))

    @property
    def known_segments(self) -> int:
        """The number of segments that the campaign has; 0 if visitors are one population."""
        return len(self.segments.shares) if self.segments is not None and self.segments.known else 0

    @property
    def cumulative_shares(self) -> npt.NDArray[np.float64]:
        """The cumulative shares of the visitors' segments, known or not."""
        return np.ones(1) if self.segments is None else self.segments.cumulative_shares()

    def item_sampler(self) -> ItemSampler | SegmentMeansSampler:
        """Return a sampler for the items' true ratings; reads star counts."""
        belief = self.spread or self.star_counts or self.segments
        assert belief is not None
        assert self.arms is not None
        return belief.sampler(self.arms)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Plan:
        """Build a plan from plain tables, with the same checks as the constructors."""
        settings = dict(plain)
        for field, given in plain.items():
            if field == "spread":
                settings[field] = build_spec(Spread, field, as_table(field, given))
            elif field == "star_counts":
                settings[field] = build_spec(StarCounts, field, as_table(field, given))
            elif field == "segments":
                settings[field] = build_spec(PlanSegments, field, as_table(field, given))
            elif field == "acceptance":
                settings[field] = parse_entry(field, field, given)
            elif field == "rating_delay" and isinstance(given, dict):
                settings[field] = parse_entry("delay", field, given)
            elif field in ("response", "price"):
                settings[field] = parse_entry(field, field, given)
            elif field == "probe":
                settings[field] = build_spec(Probe, field, as_table(field, given))
            elif field == "policies":
                entries = given if isinstance(given, list) else [given]
                settings[field] = [
                    parse_entry(field, f"{field}[{i}]", entry) for i, entry in enumerate(entries)
                ]
        plan: Plan = build_spec(cls, "the plan", settings)
        return plan

    def _set_items(self) -> None:
        kinds: dict[str, type] = {
            "spread": Spread, "star_counts": StarCounts, "segments": PlanSegments,
        }  # fmt: skip
        for field, kind in kinds.items():
            given = getattr(self, field)
            if given is not None and not isinstance(given, kind):
                raise InputError(f"Plan: {field}", f"must be a {kind.__name__}", given=given)
        found = [field for field in kinds if getattr(self, field) is not None]
        if len(found) != 1:
            raise InputError(
                "Plan",
                "must have exactly one of spread, star_counts and segments, the belief about the "
                "items",
                given=" and ".join(found) or "none",
                todo="If in doubt, use a spread with centre 4.1 and width 0.45, as among real "
                "products.",
            )
        listed = None
        if self.star_counts is not None and self.star_counts.counts is not None:
            listed, where = len(self.star_counts.counts), "rows of star_counts"
        elif self.segments is not None:
            listed, where = self.segments.items, "items of segments.means"
        if self.arms is None:
            if listed is None:
                rule = "must be the number of items"
                raise InputError("Plan: arms", rule, given=self.arms)
            msgspec.structs.force_setattr(self, "arms", listed)
        set_whole(self, "arms", at_least=2, at_most=10_000)
        if listed is not None and listed != self.arms:
            rule = f"must be the number of {where}, {listed}"
            raise InputError("Plan: arms", rule, given=self.arms)

    def _set_currency(self) -> None:
        money = read_currency("Plan", self.currency, self.currency_digits)
        code = money.code if self.currency.strip() else ""
        msgspec.structs.force_setattr(self, "currency", code)
        msgspec.structs.force_setattr(self, "currency_digits", money.digits)
        price = money.to_major(money.to_minor(self.price_of_a_star))
        if not math.isclose(price, self.price_of_a_star, rel_tol=1e-9):
            rule = f"must be a multiple of {money.format(1)}, the smallest amount of the currency"
            todo = "Use the cost of a payment worth one star, such as 2.00."
            raise InputError("Plan: price_of_a_star", rule, given=self.price_of_a_star, todo=todo)

        for field in ("margin", "cap_per_offer", "cap_per_player"):
            if getattr(self, field) is not None and set_number(self, field) < 0:
                raise InputError(
                    f"Plan: {field}", "must not be negative", given=getattr(self, field)
                )

    def _check_amounts(self) -> None:
        most = self.money.to_major(MAX_MONEY)
        for field in ("price_of_a_star", "margin", "budget", "cap_per_offer", "cap_per_player"):
            given = getattr(self, field)
            if given is not None and given > most:
                raise InputError(f"Plan: {field}", f"must be at most {most:,.0f}", given=given)

    def _set_delay(self) -> None:
        if isinstance(self.rating_delay, DelaySpec):
            return
        if not 0 <= set_number(self, "rating_delay") <= _MOST_DAYS:
            rule = f"must be from 0 to {_MOST_DAYS:,} days, or a distribution of days"
            raise InputError("Plan: rating_delay", rule, given=self.rating_delay)

    def _set_drift(self) -> None:
        given: Any = self.drift
        pair = given if is_list(given) else (given, given)
        if len(pair) != 2:
            rule = "must be a pair (lowest, highest), or one number"
            raise InputError("Plan: drift", rule, given=given)
        low, high = (as_number(f"Plan: drift[{i}]", v) for i, v in enumerate(pair))
        if not 0 <= low <= high:
            rule = "must not be negative, and have the lowest first"
            raise InputError("Plan: drift", rule, given=given)
        msgspec.structs.force_setattr(self, "drift", (low, high))

    def _check_response(self) -> None:
        if self.response is None:
            return
        if not isinstance(self.response, Response):
            rule = "must be a LogisticResponse or None"
            raise InputError("Plan: response", rule, given=self.response)
        if self.share_who_rate != 1:
            rule = "must be left out if there is a response, which says who rates"
            todo = "A lower `base` of the response makes fewer visitors rate."
            raise InputError("Plan: share_who_rate", rule, given=self.share_who_rate, todo=todo)

    def _set_policies(self) -> None:
        given: Any = default_policies(self) if self.policies is None else self.policies
        members = tuple(given) if is_list(given) else (given,)
        check_policies(self, members)
        msgspec.structs.force_setattr(self, "policies", members)

    def _set_goals(self) -> None:
        if self.budget is not None and set_number(self, "budget") <= 0:
            todo = "Omit it to find out how much is needed."
            rule = "must be greater than 0"
            raise InputError("Plan: budget", rule, given=self.budget, todo=todo)
        if not 0.5 <= set_number(self, "confidence") < 1:
            rule = "must be at least 0.5 and less than 1"
            raise InputError("Plan: confidence", rule, given=self.confidence)
        if self.pace_over is not None and self.budget is None:
            rule = "requires a budget"
            raise InputError("Plan: pace_over", rule, given=self.pace_over, todo="Set budget too.")
        if not 0 <= set_number(self, "close_enough") <= 4:
            rule = "must be from 0 to 4 stars"
            raise InputError("Plan: close_enough", rule, given=self.close_enough)
        set_whole(self, "replications", at_least=1, at_most=100_000)
        if self.replications * (1 - self.confidence) < 1 - 1e-9:
            least = round(1 / (1 - self.confidence))
            rule = f"must be at least {least} for a confidence of {self.confidence:g}"
            raise InputError("Plan: replications", rule, given=self.replications)
        if self.seed is not None:
            msgspec.structs.force_setattr(self, "seed", as_seed("Plan: seed", self.seed))
