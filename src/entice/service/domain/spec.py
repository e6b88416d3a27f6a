"""The settings of a campaign, in Python, TOML and JSON."""

from __future__ import annotations

import math
import re
import secrets
import tomllib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from entice.api_types import CampaignPlan
from entice.checks import as_seed, is_list, set_number, set_whole
from entice.errors import InputError, did_you_mean
from entice.model.learned_price import LearnedPrice
from entice.model.probe import Probe
from entice.model.segments import MAX_SEGMENTS
from entice.model.settings import MAX_MONEY as MAX_MONEY
from entice.model.settings import (
    RATING_WINDOW,
    YEAR,
    PolicyScale,
    check_probe_cost,
    check_settings,
    without_holdout_defaults,
)
from entice.money import (
    MAX_DIGITS,
    Currency,
    explain_minor_units,
    read_currency,
    recorded_currency,
)
from entice.policies import (
    MOSS,
    UCB,
    AlternatingThompson,
    DiscountedUCB,
    DriftCorrectedThompson,
    EpsilonGreedy,
    EqualPay,
    EqualPayElimination,
    Greedy,
    RoundRobinEpsilonGreedy,
    SlidingWindowUCB,
    ThompsonSampling,
)
from entice.policies.policy import check_price, check_probe
from entice.policies.propensity import check_overlap
from entice.policies.segments import check_segments
from entice.spec_parsing import as_table, build_spec, parse_entry, read_text, without_none

Status = Literal["live", "paused", "shadow", "closed"]

ServedPolicy = (
    UCB
    | EpsilonGreedy
    | ThompsonSampling
    | Greedy
    | DriftCorrectedThompson
    | RoundRobinEpsilonGreedy
    | AlternatingThompson
    | MOSS
    | EqualPay
    | EqualPayElimination
    | DiscountedUCB
    | SlidingWindowUCB
)
"""Policies that can choose among any subset of the arms."""

_ADDED_LATER: dict[str, dict[str, Any]] = {
    "ucb": {"noise": 1.0},
    "thompson_sampling": {"noise": 1.0},
    "equal_pay": {"display_prior": 20.0},
    "equal_pay_elimination": {"estimate_noise": False},
}
"""Settings that were added to policies later, with their defaults.

A default is left out of the stored settings, so that older campaigns verify byte for byte.
"""

MAX_ARMS = 1000
MAX_WINDOW = 1000
"""Ratings in the window of sliding-window UCB, which each commit writes to the database: 16 bytes
each. A command takes 1.2 times as much CPU time as with UCB; with 10,000 ratings, 2.1 times."""
MAX_DISCLOSURE = 1000
MAX_RATING_SQUARED = 10_000
"""The largest rating with a holdout or segments: sums of squares must fit into 64 bits."""
MAX_NEW_SEED = 2**53 - 1
"""The largest integer that a JSON client with 64-bit floats represents exactly."""
_ARM = re.compile(r"[A-Za-z0-9._~-]{1,64}")

# Constraints for the OpenAPI schema. The constructor checks them too, with clearer messages.
Money = Annotated[int, Meta(ge=0, le=MAX_MONEY)]
# The schema of a share, which is not checked while a body is decoded: msgspec's message has neither
# the given value nor what to do.
Share = Annotated[float, Meta(extra_json_schema={"minimum": 0, "exclusiveMaximum": 1})]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
ArmName = Annotated[
    str,
    Meta(pattern="^[A-Za-z0-9._~-]{1,64}$", extra_json_schema={"not": {"enum": [".", ".."]}}),
]
UniqueItems = Meta(extra_json_schema={"uniqueItems": True})


class CampaignSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings of a campaign: the arms, the policy, and the budget.

    Amounts of money are whole numbers of the currency's minor unit, such as cents. The yen has no
    smaller unit, so its amounts are in yen.

    Parameters
    ----------
    name
        A label for display.
    arms
        The ids of the items, such as your own product numbers.
    policy
        The exploration policy. Ratings expected from offers in flight always count as ratings of
        their arm.
    lowest_rating
        The lowest rating that players can give. Ratings are whole numbers.
    highest_rating
        The highest rating that players can give.
    policy_sees
        The scale on which the policy sees ratings, as in a plan. ``"stars"``: unchanged, so that
        ratings vary by about 1, as the paper's policies assume. ``"zero_to_one"``: mapped to 0
        to 1; UCB and Thompson sampling then explore several times as much, unless their `noise` is
        set to the standard deviation of such ratings, about 0.3.
    unrated_shows
        The rating displayed by an arm without ratings, in stars. Default: the middle of the range.
    budget
        The total that may be spent, including the amounts reserved for open offers.
    currency
        ISO 4217 code, such as EUR, or a name of your own, such as POINTS.
    currency_digits
        The number of decimals of the currency, 0 to 8. Required for a name of your own; for an ISO
        code it can be omitted.
    price_of_a_star
        The payment for forgoing one star, that is, one step of the rating scale.
    margin
        An amount added to every nonzero payment.
    cap_per_offer
        The most that one offer may cost.
    cap_per_player
        The most that all offers to one player together may cost.
    pace_over
        The number of offers over which to spread the budget. Up to offer t, at most the share
        log(1 + t) / log(1 + pace_over) of the budget is spent, because the need to explore grows
        logarithmically.
    probe
        A randomised experiment that measures the drift: in a share of the offers of a player's own
        choice, a coin flip decides whether an amount, in stars, is added.
    overlap
        The share of decisions in which the arm is drawn at random from those that may be offered,
        each equally likely. The log then has the propensity of every arm, and
        `entice.estimate.evaluate` estimates what other policies would have done.
    offer_expires_after
        Seconds for which an offer can be accepted.
    rating_window
        Seconds for which an accepted offer can be rated.
    late_ratings
        Whether ratings are accepted after the rating window.
    holdout
        The share of players who are never paid and get their own choice, so that the effect of the
        campaign can be measured. A player stays in the same group.
    holdout_feeds_averages
        Whether ratings of held-out players count in the averages, as unpaid ratings. If not, they
        count in the measured effect only.
    planned_drift
        The highest drift that the plan assumed, in stars per star of payment. A campaign whose
        probe measures more has an alert. Default: no alert.
    segments
        The ids of up to 32 segments of players, such as ``["new", "regular"]``. A request for an
        offer then names the player's segment, and decisions use the averages of the segment, shrunk
        towards those of all players. Fixed when the campaign is created. Default: all players are
        one population.
    price
        What offers of another arm than the player's own choice pay. None: the gap. A
        `LearnedPrice`: the cheapest price that a wanted share of players accepts, learned from
        their answers, but never more than the gap.
    disclosure
        Text that each paid offer carries, for players and for readers of their ratings.
    status
        `live`; `paused`: players are offered their own choice, unpaid; `shadow`: decisions are
        recorded but nothing is paid.
    seed
        Random seed of all decisions. Drawn if omitted.
    plan
        The forecast that the campaign is created from, to compare its spending with. It is not a
        setting: it changes no decision, and `GET /v1/campaigns/{id}/plan` returns it.

    >>> from entice.service.domain.spec import CampaignSpec
    >>> spec = CampaignSpec(
    ...     name="Tea", arms=["oolong", "sencha"], budget=50_000, price_of_a_star=200)
    >>> spec.unrated_stars
    3.0
    """

    name: Name
    arms: Annotated[Sequence[ArmName], Meta(min_length=2, max_length=MAX_ARMS), UniqueItems]
    policy: ServedPolicy = UCB()
    lowest_rating: Annotated[int, Meta(ge=-1000, le=1000)] = 1
    highest_rating: Annotated[int, Meta(ge=-1000, le=1_000_000)] = 5
    policy_sees: PolicyScale = "stars"
    unrated_shows: float | None = None
    budget: Money
    currency: Annotated[str, Meta(pattern="^[A-Z]{3,12}$")] = "EUR"
    currency_digits: Annotated[int, Meta(ge=0, le=MAX_DIGITS)] | None = None
    price_of_a_star: Annotated[int, Meta(ge=1, le=10**12)]
    margin: Annotated[int, Meta(ge=0, le=10**12)] = 0
    cap_per_offer: Money | None = None
    cap_per_player: Money | None = None
    pace_over: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    probe: Probe | None = None
    overlap: Share = 0.0
    offer_expires_after: Annotated[int, Meta(ge=1, le=YEAR)] = 900
    rating_window: Annotated[int, Meta(ge=1, le=10 * YEAR)] = RATING_WINDOW
    late_ratings: bool = True
    holdout: Share = 0.0
    holdout_feeds_averages: bool = True
    planned_drift: Annotated[float, Meta(ge=0)] | None = None
    segments: Annotated[Sequence[ArmName], Meta(max_length=MAX_SEGMENTS), UniqueItems] = ()
    price: LearnedPrice | None = None
    disclosure: Annotated[str, Meta(min_length=1, max_length=MAX_DISCLOSURE)] | None = None
    status: Literal["live", "paused", "shadow"] = "live"
    seed: Annotated[int, Meta(ge=0, le=MAX_NEW_SEED)] | None = None
    plan: CampaignPlan | None = None

    def __post_init__(self) -> None:
        check_name("CampaignSpec: name", self.name)
        msgspec.structs.force_setattr(
            self, "arms", check_arm_ids("CampaignSpec: arms", self.arms, 2)
        )
        if not isinstance(self.policy, get_args(ServedPolicy)):
            todo = did_you_mean("", _kinds())
            rule = "must be a policy that a service can run"
            raise InputError("CampaignSpec: policy", rule, given=self.policy, todo=todo)
        noise = getattr(self.policy, "noise", 1.0)
        if not 1e-6 <= noise <= 1e6:
            raise InputError("CampaignSpec: policy.noise", "must be from 1e-6 to 1e6", given=noise)
        if isinstance(self.policy, SlidingWindowUCB) and self.policy.window > MAX_WINDOW:
            rule = f"must be at most {MAX_WINDOW:,} in a campaign"
            name, given = "CampaignSpec: policy.window", self.policy.window
            todo = "Discounted UCB stores no ratings, and remembers about 1/(1 − gamma)."
            raise InputError(name, rule, given=given, todo=todo)
        set_whole(self, "lowest_rating", at_least=-1000, at_most=1000)
        set_whole(self, "highest_rating", at_least=-1000, at_most=1_000_000)
        if self.highest_rating <= self.lowest_rating:
            rule = f"must be above lowest_rating, {self.lowest_rating}"
            raise InputError("CampaignSpec: highest_rating", rule, given=self.highest_rating)
        check_settings(self, self.lowest_rating, self.highest_rating)
        largest = max(abs(self.lowest_rating), abs(self.highest_rating))
        self._check_segments()
        if (self.holdout > 0 or self.segments) and largest > MAX_RATING_SQUARED:
            with_what = "a holdout" if self.holdout > 0 else "segments"
            rule = f"must be at most {MAX_RATING_SQUARED} in a campaign with {with_what}"
            raise InputError("CampaignSpec: highest_rating", rule, given=self.highest_rating)
        self._check_money()
        check_probe_cost(self, self.price_of_a_star)
        check_probe("CampaignSpec: probe", self.probe, self.policy)
        check_price("CampaignSpec: price", self.price, self.policy)
        check_overlap("CampaignSpec: overlap", self.overlap, self.policy, len(self.arms))
        set_whole(self, "offer_expires_after", at_least=1, at_most=YEAR)
        if self.planned_drift is not None and set_number(self, "planned_drift") < 0:
            rule = "must be at least 0 stars per star of payment"
            raise InputError("CampaignSpec: planned_drift", rule, given=self.planned_drift)
        if self.disclosure is not None:
            check_name("CampaignSpec: disclosure", self.disclosure, MAX_DISCLOSURE)
        if self.status not in ("live", "paused", "shadow"):
            rule = 'must be "live", "paused" or "shadow" in a new campaign'
            raise InputError("CampaignSpec: status", rule, given=self.status)
        if self.seed is not None:
            msgspec.structs.force_setattr(self, "seed", as_seed("CampaignSpec: seed", self.seed))
        if self.plan is not None:
            check_plan(self.plan)

    def _check_segments(self) -> None:
        where = "CampaignSpec: segments"
        segments = check_ids(where, self.segments, 0, MAX_SEGMENTS)
        msgspec.structs.force_setattr(self, "segments", segments)
        if segments:
            check_segments(
                "CampaignSpec: policy", self.policy, len(self.arms), "leave out the segments"
            )

    def _check_money(self) -> None:
        if not isinstance(self.currency, str) or not re.fullmatch(r"[A-Z]{3,12}", self.currency):
            rule = "must be a name of 3 to 12 capital letters, such as EUR"
            raise InputError("CampaignSpec: currency", rule, given=self.currency)
        if self.currency_digits is not None:
            set_whole(self, "currency_digits", at_least=0, at_most=MAX_DIGITS)
        for field in ("budget", "price_of_a_star", "margin", "cap_per_offer", "cap_per_player"):
            if isinstance(given := getattr(self, field), float):
                rule, todo = explain_minor_units(self.money, given)
                raise InputError(f"CampaignSpec: {field}", rule, given=given, todo=todo)
        set_whole(self, "budget", at_least=0, at_most=MAX_MONEY)
        set_whole(self, "price_of_a_star", at_least=1, at_most=10**12)
        set_whole(self, "margin", at_least=0, at_most=10**12)
        for field in ("cap_per_offer", "cap_per_player"):
            if getattr(self, field) is not None:
                set_whole(self, field, at_least=0, at_most=MAX_MONEY)

    @property
    def unrated_stars(self) -> float:
        """The rating displayed by an arm without ratings, in stars."""
        if self.unrated_shows is not None:
            return self.unrated_shows
        return (self.lowest_rating + self.highest_rating) / 2

    @property
    def money(self) -> Currency:
        """The currency and its number of decimals; older campaigns do not record the latter."""
        return recorded_currency(self.currency, self.currency_digits)

    @classmethod
    def from_toml(cls, text: str) -> CampaignSpec:
        """Read a campaign from TOML. Unknown settings are an error."""
        try:
            return cls.from_plain(tomllib.loads(text)).with_currency_digits()
        except tomllib.TOMLDecodeError as error:
            raise InputError("the campaign", f"must be TOML ({error})") from error

    @classmethod
    def from_file(cls, path: str | Path) -> CampaignSpec:
        """Read a campaign from a TOML file."""
        return cls.from_toml(read_text("the campaign file", Path(path)))

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> CampaignSpec:
        """Build a campaign from plain tables, with the same checks as the constructor.

        The tables cannot name code to import, because campaigns are also created over HTTP.
        """
        settings = dict(as_table("the campaign", plain))
        if "policy" in settings:
            table = as_table("policy", settings["policy"])
            if table.get("kind") not in _kinds():
                todo = did_you_mean(str(table.get("kind")), _kinds())
                rule = "must be of a kind that a service can run"
                raise InputError("policy", rule, given=table.get("kind"), todo=todo)
            settings["policy"] = parse_entry("policies", "policy", table)
        if settings.get("probe") is not None:
            settings["probe"] = build_spec(Probe, "probe", as_table("probe", settings["probe"]))
        if settings.get("plan") is not None:
            settings["plan"] = _read_plan(settings["plan"])
        if settings.get("price") is not None:
            settings["price"] = parse_entry("price", "price", settings["price"])
        spec: CampaignSpec = build_spec(cls, "the campaign", settings)
        return spec

    def to_plain(self) -> dict[str, Any]:
        """Convert the settings to plain tables, without the plan."""
        plain = without_holdout_defaults(without_none(msgspec.to_builtins(self)))
        policy = plain["policy"]
        for name, default in _ADDED_LATER.get(policy["kind"], {}).items():
            if policy[name] == default:
                del policy[name]
        plain.pop("plan", None)
        for name in ("overlap", "segments"):  # added later, too
            if not getattr(self, name):
                del plain[name]
        return plain

    def with_currency_digits(self) -> CampaignSpec:
        """Return the campaign with its currency's number of decimals, to be stored with it.

        CLDR data changes from time to time; a stored number keeps amounts unambiguous. An unknown
        currency without `currency_digits` is an error only here, because campaigns stored by older
        versions must still load.
        """
        money = read_currency("CampaignSpec", self.currency, self.currency_digits)
        return msgspec.structs.replace(self, currency_digits=money.digits)

    def with_seed(self) -> CampaignSpec:
        """Return the campaign with a seed, drawn if it has none."""
        if self.seed is not None:
            return self
        return msgspec.structs.replace(self, seed=secrets.randbits(53))


def _read_plan(given: Any) -> CampaignPlan:
    try:
        return msgspec.convert(as_table("plan", given), CampaignPlan)
    except msgspec.ValidationError as error:
        raise InputError("plan", f"must be a forecast as a plan returns it ({error})") from error


def check_plan(plan: CampaignPlan) -> None:
    """Check that the columns of a plan fit together."""
    columns = {name: getattr(plan, name) for name in ("visitors", "low", "typical", "high")}
    for name, column in columns.items():
        if len(column) != len(plan.visitors):
            rule = f"must have as many values as visitors, {len(plan.visitors)}"
            raise InputError(f"plan.{name}", rule, given=len(column))
        if any(later < earlier for earlier, later in pairwise(column)):
            raise InputError(f"plan.{name}", "must not decrease", given=column)
    if len(set(plan.visitors)) < len(plan.visitors):
        raise InputError("plan.visitors", "must not contain a number twice", given=plan.visitors)
    if not 0 <= plan.drift[0] <= plan.drift[1] < math.inf:
        raise InputError("plan.drift", "must be a range such as [0, 1]", given=plan.drift)


def check_name(where: str, given: object, longest: int = 200) -> None:
    """Check a label."""
    if not isinstance(given, str) or not given.strip() or len(given) > longest:
        raise InputError(where, f"must be text of 1 to {longest} characters", given=given)
    if not given.isprintable():
        raise InputError(where, "must be text of one line, without control characters", given=given)


def check_arm_ids(where: str, given: Any, least: int) -> tuple[str, ...]:
    """Check the ids of arms, which are part of URLs."""
    return check_ids(where, given, least, MAX_ARMS)


def check_ids(where: str, given: Any, least: int, most: int) -> tuple[str, ...]:
    """Check the ids of arms or segments."""
    if not is_list(given) or not least <= len(given) <= most:
        raise InputError(where, f"must be a list of {least} to {most} ids", given=given)
    for one in given:
        if not isinstance(one, str) or not _ARM.fullmatch(one):
            rule = "must be ids of 1 to 64 letters, digits or . _ ~ -"
            raise InputError(where, rule, given=one)
    if len(set(given)) < len(given):
        raise InputError(where, "must not contain an id twice", given=given)
    return tuple(given)


def reject_dots(where: str, given: Sequence[str]) -> None:
    """Reject the ids `.` and `..`, which clients resolve as folders in a URL.

    Only new arms are checked: campaigns stored with such an id must still load.
    """
    for arm in given:
        if arm in (".", ".."):
            rule = "must not be '.' or '..', which are folders in a URL"
            raise InputError(where, rule, given=arm, todo="Use another id, such as 'dot'.")


def _kinds() -> list[str]:
    return [kind.__struct_config__.tag for kind in get_args(ServedPolicy)]
