"""The spec of a plan: what is known before launch, in and out of TOML."""

from __future__ import annotations

import math
import secrets
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
import tomli_w

from entice.checks import as_number, as_seed, is_list, set_number, set_whole
from entice.errors import InputError
from entice.jit.decorators import import_path
from entice.model.probe import Probe
from entice.model.settings import (
    MAX_MONEY,
    RATING_WINDOW,
    PolicyScale,
    check_probe_cost,
    check_settings,
)
from entice.money import NO_CURRENCY, Currency, read_currency
from entice.planner.belief import STARS, ItemSampler, Spread, StarCounts
from entice.policies import UCB, EpsilonGreedy, Greedy, Policy, ThompsonSampling
from entice.spec_parsing import as_table, build_spec, parse_entry, read_text, without_none
from entice.user_functions import importable
from entice.worlds.delays import Delay, DelaySampler, DelaySpec, constant_delay
from entice.worlds.players import Acceptance, AlwaysAccept

MOST_VISITORS = 5_000_000
"""Each run is looked at visitor by visitor; more would neither fit into memory nor be quick."""
_MOST_DAYS = 3_650


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A campaign before launch: what is for sale, who comes, what a star is worth, what is feared.

    Parameters
    ----------
    arms
        How many items visitors choose from. May be left out with `star_counts.counts`, which
        has a row for each.
    spread, star_counts
        What is believed of them: one of the two. Each run draws its own truth from it.
    visitors_a_day, days
        Visitors who each take one item.
    price_of_a_star
        A payment of x stars costs x times this; a star that a visitor loses is valued alike.
    currency, currency_digits
        A code of ISO 4217 such as "EUR", or a sign such as "€"; or a name of your own, such as
        "points", with the number of its decimals, 0 to 8. Empty: amounts are plain numbers, with
        two decimals.
    share_who_rate
        The share of visitors who rate what they took; the others' ratings never come.
    rating_delay
        How many days later ratings come: one number for all, or a distribution, such as
        `ExponentialDelay(mean=3)`.
    acceptance
        Who takes an offer, by its payment in stars.
    drift
        By how many stars a payment worth one star raises a rating: the lowest and the highest
        slope that may be, or one number. Each run draws its own.
    policies
        What to compare. `Greedy`, no payments at all, is the free baseline.
    budget
        How much may be spent, if that is settled.
    confidence
        The share of runs that a promise is to hold for: 0.9 is nine runs in ten.
    unrated_shows
        What visitors expect of an item without ratings, in stars; by default a typical item.
    close_enough
        An item this near to the best one, in stars, counts as best too.
    policy_sees
        ``"stars"``: ratings as they are; one rating then differs from the next by about 1, which is
        what the policies of the paper are made for. ``"zero_to_one"``: 1 to 5 stars mapped
        to 0 to 1; UCB and Thompson sampling then explore several times as much, unless they are
        given the noise of such ratings, some 0.3.
    rating_window, late_ratings, pace_over, probe
        As in a campaign: the seconds for which a rating is awaited, whether later ones count, the
        number of offers that the budget is spread over, and the probe that measures the drift.
    margin, cap_per_offer, cap_per_player
        As in a campaign, but in units of the currency, such as euros. Each visitor is another
        player.
    replications
        How many runs, each in a world of its own.
    seed
        Of all random numbers; a plan without one draws it and records it.

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
    visitors_a_day: int
    days: int
    price_of_a_star: float
    currency: str = ""
    currency_digits: int | None = None
    share_who_rate: float = 1.0
    rating_delay: float | Delay = 0.0
    acceptance: Acceptance = AlwaysAccept()
    drift: Sequence[float]
    policies: Sequence[Policy] = (UCB(), ThompsonSampling(), EpsilonGreedy(c=5), Greedy())
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
                todo="Plan fewer days, or a part of the visitors.",
            )
        if set_number(self, "price_of_a_star") <= 0:
            rule = "must be greater than 0"
            raise InputError("Plan: price_of_a_star", rule, given=self.price_of_a_star)
        self._set_currency()
        if not 0 < set_number(self, "share_who_rate") <= 1:
            rule = "must be greater than 0 and at most 1"
            raise InputError("Plan: share_who_rate", rule, given=self.share_who_rate)
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
        """Read a plan from TOML; what is unknown or misspelt is an error."""
        try:
            return cls.from_plain(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise InputError("the plan", f"must be TOML ({error})") from error

    @classmethod
    def from_file(cls, path: str | Path) -> Plan:
        """Read a plan from a TOML file; paths in it begin at its folder."""
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
        """Write the plan as plain tables, custom functions as "module:name"."""
        plain: dict[str, Any] = without_none(msgspec.to_builtins(self, enc_hook=import_path))
        return plain

    def to_toml(self) -> str:
        """Write the plan as TOML, custom functions as "module:name"."""
        return tomli_w.dumps(self.to_plain())

    def with_seed(self) -> Plan:
        """Return the plan with a seed: its own, or a fresh one."""
        if self.seed is not None:
            return self
        return msgspec.structs.replace(self, seed=secrets.randbits(32))

    @property
    def money(self) -> Currency:
        """The currency, to convert and to write amounts with."""
        assert self.currency_digits is not None
        return Currency(self.currency or NO_CURRENCY, self.currency_digits)

    @property
    def visitors(self) -> int:
        """How many visitors come in all."""
        return self.visitors_a_day * self.days

    @property
    def unrated_stars(self) -> float:
        """What an item without ratings shows, in stars; a campaign is created with the same."""
        given = self.unrated_shows
        return given if given is not None else round(self.item_sampler().centre, 4)

    def delay_sampler(self) -> DelaySampler:
        """Return how the days until a rating comes are drawn."""
        if isinstance(self.rating_delay, DelaySpec):
            return self.rating_delay.sampler()
        return DelaySampler(constant_delay, (self.rating_delay,), self.rating_delay)

    def item_sampler(self) -> ItemSampler:
        """Make what draws the items' truth, run by run; star counts are read here."""
        belief = self.spread or self.star_counts
        assert belief is not None
        assert self.arms is not None
        return belief.sampler(self.arms)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Plan:
        """Build a plan through the same constructors, and so the same checks, as Python does."""
        settings = dict(plain)
        for field, given in plain.items():
            if field == "spread":
                settings[field] = build_spec(Spread, field, as_table(field, given))
            elif field == "star_counts":
                settings[field] = build_spec(StarCounts, field, as_table(field, given))
            elif field == "acceptance":
                settings[field] = parse_entry(field, field, given)
            elif field == "rating_delay" and isinstance(given, dict):
                settings[field] = parse_entry("delay", field, given)
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
        for field, kind in (("spread", Spread), ("star_counts", StarCounts)):
            given = getattr(self, field)
            if given is not None and not isinstance(given, kind):
                raise InputError(f"Plan: {field}", f"must be a {kind.__name__}", given=given)
        if (self.spread is None) == (self.star_counts is None):
            raise InputError(
                "Plan",
                "must say what is believed of the items, by spread or else by star_counts",
                todo="If you know nothing better: spread with centre 4.1 and width 0.45, "
                "as among real products.",
            )
        listed = self.star_counts.counts if self.star_counts is not None else None
        if self.arms is None:
            if listed is None:
                rule = "must say how many items there are"
                raise InputError("Plan: arms", rule, given=self.arms)
            msgspec.structs.force_setattr(self, "arms", len(listed))
        set_whole(self, "arms", at_least=2, at_most=10_000)
        if listed is not None and len(listed) != self.arms:
            rule = f"must be as many as star_counts has rows, {len(listed)}"
            raise InputError("Plan: arms", rule, given=self.arms)

    def _set_currency(self) -> None:
        money = read_currency("Plan", self.currency, self.currency_digits)
        code = money.code if self.currency.strip() else ""
        msgspec.structs.force_setattr(self, "currency", code)
        msgspec.structs.force_setattr(self, "currency_digits", money.digits)
        price = money.to_major(money.to_minor(self.price_of_a_star))
        if not math.isclose(price, self.price_of_a_star, rel_tol=1e-9):
            rule = f"must be a multiple of {money.format(1)}, the smallest amount there is"
            raise InputError("Plan: price_of_a_star", rule, given=self.price_of_a_star)

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
            rule = "must not be negative, the lowest first"
            raise InputError("Plan: drift", rule, given=given)
        msgspec.structs.force_setattr(self, "drift", (low, high))

    def _set_policies(self) -> None:
        given: Any = self.policies
        members = tuple(given) if is_list(given) else (given,)
        if not members:
            raise InputError("Plan: policies", "must have at least one entry", given=given)
        for i, member in enumerate(members):
            if not isinstance(member, get_args(Policy)):
                kinds = ", ".join(kind.__name__ for kind in get_args(Policy))
                name = f"Plan: policies[{i}]"
                raise InputError(name, f"must be one of {kinds}", given=member)
            if member in members[:i]:
                raise InputError(f"Plan: policies[{i}]", "is there twice", given=member)
            if member.unit_ratings and self.policy_sees == "stars":
                rule = f"is {member.label}, which needs ratings between 0 and 1"
                todo = 'Set policy_sees to "zero_to_one".'
                given = self.policy_sees
                raise InputError(f"Plan: policies[{i}]", rule, given=given, todo=todo)
            if getattr(member, "count_in_flight", False):
                raise InputError(
                    f"Plan: policies[{i}].count_in_flight",
                    "can't be set: campaigns always count the ratings that are still expected",
                    given=True,
                    todo="Leave it out.",
                )
        msgspec.structs.force_setattr(self, "policies", members)

    def _set_goals(self) -> None:
        if self.budget is not None and set_number(self, "budget") <= 0:
            todo = "Leave it out to ask what it should be."
            rule = "must be greater than 0"
            raise InputError("Plan: budget", rule, given=self.budget, todo=todo)
        if not 0.5 <= set_number(self, "confidence") < 1:
            rule = "must be at least 0.5 and less than 1"
            raise InputError("Plan: confidence", rule, given=self.confidence)
        if self.pace_over is not None and self.budget is None:
            rule = "spreads a budget, and there is none"
            raise InputError("Plan: pace_over", rule, given=self.pace_over, todo="Set budget too.")
        if not 0 <= set_number(self, "close_enough") <= 4:
            rule = "must be from 0 to 4 stars"
            raise InputError("Plan: close_enough", rule, given=self.close_enough)
        set_whole(self, "replications", at_least=1, at_most=100_000)
        if self.replications * (1 - self.confidence) < 1 - 1e-9:
            least = round(1 / (1 - self.confidence))
            rule = f"must be at least {least}, so that a confidence of {self.confidence:g} shows"
            raise InputError("Plan: replications", rule, given=self.replications)
        if self.seed is not None:
            msgspec.structs.force_setattr(self, "seed", as_seed("Plan: seed", self.seed))
