"""The spec of a campaign: what a marketplace decides before launch, in and out of TOML and JSON."""

from __future__ import annotations

import re
import secrets
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from entice.checks import as_seed, is_list, set_whole
from entice.errors import InputError, did_you_mean
from entice.model.probe import Probe
from entice.model.settings import MAX_MONEY as MAX_MONEY
from entice.model.settings import RATING_WINDOW, YEAR, PolicyScale, check_probe_cost, check_settings
from entice.money import (
    MAX_DIGITS,
    Currency,
    explain_minor_units,
    read_currency,
    recorded_currency,
)
from entice.policies import (
    UCB,
    AlternatingThompson,
    DriftCorrectedThompson,
    EpsilonGreedy,
    Greedy,
    RoundRobinEpsilonGreedy,
    ThompsonSampling,
)
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
)
"""Policies that choose among any part of the arms, and whose memory ratings alone can rebuild."""

_ADDED = {"ucb": {"noise": 1.0}, "thompson_sampling": {"noise": 1.0}}
"""Settings of policies that campaigns written earlier do not have.

They are left out where they change nothing, so that those campaigns verify byte for byte.
"""

MAX_ARMS = 1000
_ARM = re.compile(r"[A-Za-z0-9._~-]{1,64}")


class CampaignSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A campaign: what is offered, how it is explored, and what that may cost.

    Money is in whole minor units: cents, where the currency is the euro; yen, which have none.

    Parameters
    ----------
    name
        For people.
    arms
        The ids of the items, such as your own product numbers.
    policy
        How to explore. Pulls in flight always count in how certain it is of an arm.
    lowest_rating, highest_rating
        Ratings are whole numbers from one to the other.
    policy_sees
        As in a plan. ``"stars"``: ratings as they are; one rating then differs from the next
        by about 1, which is what the policies of the paper are made for. ``"zero_to_one"``:
        the grid mapped to 0 to 1; UCB and Thompson sampling then explore several times as much,
        unless they are given the noise of such ratings, some 0.3.
    unrated_shows
        What players expect of an arm without ratings, in stars; the middle of the grid by default.
    budget
        What may be spent in all, offers that are still open included.
    currency, currency_digits
        Its code of ISO 4217, such as EUR; or a name of your own, such as POINTS, with the number
        of its decimals, 0 to 8: 0 if it has no smaller unit.
    price_of_a_star
        What a player is paid for forgoing one star, one step of the grid.
    margin
        Added to every payment that is not 0.
    cap_per_offer, cap_per_player
        No offer, and no player's offers together, may cost more.
    pace_over
        Spread the budget over so many offers, as the need to explore is spread: up to offer t,
        at most the share log(1 + t) / log(1 + pace_over) of it.
    probe
        In a share of the offers of the player's own choice a coin adds an amount, in stars: the
        only honest way to learn the drift.
    offer_expires_after, rating_window
        Seconds for which an offer may be accepted, and an accepted one be rated.
    late_ratings
        Whether ratings are still taken after that.
    status
        `live`; `paused`: players get their own choice, unpaid; `shadow`: decide and record, but
        pay nothing.
    seed
        Of all decisions; drawn when none is given.

    >>> from entice.service.domain.spec import CampaignSpec
    >>> spec = CampaignSpec(
    ...     name="Tea", arms=["oolong", "sencha"], budget=50_000, price_of_a_star=200)
    >>> spec.middle
    3.0
    """

    name: str
    arms: Sequence[str]
    policy: ServedPolicy = UCB()
    lowest_rating: int = 1
    highest_rating: int = 5
    policy_sees: PolicyScale = "stars"
    unrated_shows: float | None = None
    budget: int
    currency: str = "EUR"
    currency_digits: int | None = None
    price_of_a_star: int
    margin: int = 0
    cap_per_offer: int | None = None
    cap_per_player: int | None = None
    pace_over: int | None = None
    probe: Probe | None = None
    offer_expires_after: int = 900
    rating_window: int = RATING_WINDOW
    late_ratings: bool = True
    status: Status = "live"
    seed: int | None = None

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
        set_whole(self, "lowest_rating", at_least=-1000, at_most=1000)
        set_whole(self, "highest_rating", at_least=-1000, at_most=1_000_000)
        if self.highest_rating <= self.lowest_rating:
            rule = f"must be above lowest_rating, {self.lowest_rating}"
            raise InputError("CampaignSpec: highest_rating", rule, given=self.highest_rating)
        check_settings(self, self.lowest_rating, self.highest_rating)
        self._check_money()
        check_probe_cost(self, self.price_of_a_star)
        set_whole(self, "offer_expires_after", at_least=1, at_most=YEAR)
        if self.status not in ("live", "paused", "shadow"):
            rule = 'must be "live", "paused" or "shadow" at first'
            raise InputError("CampaignSpec: status", rule, given=self.status)
        if self.seed is not None:
            msgspec.structs.force_setattr(self, "seed", as_seed("CampaignSpec: seed", self.seed))

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
        """What an arm without ratings shows, in stars."""
        if self.unrated_shows is not None:
            return self.unrated_shows
        return (self.lowest_rating + self.highest_rating) / 2

    @property
    def money(self) -> Currency:
        """The currency and its decimals, also of campaigns recorded without them."""
        return recorded_currency(self.currency, self.currency_digits)

    @classmethod
    def from_toml(cls, text: str) -> CampaignSpec:
        """Read a campaign from TOML; what is unknown or misspelt is an error."""
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
        """Build a campaign through the same constructors, and so the same checks, as Python does.

        Nothing in it can name code to be imported: campaigns come over HTTP too.
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
        spec: CampaignSpec = build_spec(cls, "the campaign", settings)
        return spec

    def to_plain(self) -> dict[str, Any]:
        """Write the campaign as plain tables."""
        plain: dict[str, Any] = without_none(msgspec.to_builtins(self))
        policy = plain["policy"]
        for name, default in _ADDED.get(policy["kind"], {}).items():
            if policy[name] == default:
                del policy[name]
        return plain

    def with_currency_digits(self) -> CampaignSpec:
        """Return the campaign with the decimals of its currency, which new ones are recorded with.

        CLDR changes now and then; what is recorded keeps its meaning. An unknown currency without
        decimals is an error here and not before: campaigns that were recorded so must be read.
        """
        money = read_currency("CampaignSpec", self.currency, self.currency_digits)
        return msgspec.structs.replace(self, currency_digits=money.digits)

    def with_seed(self) -> CampaignSpec:
        """Return the campaign with a seed: its own, or a fresh one."""
        if self.seed is not None:
            return self
        return msgspec.structs.replace(self, seed=secrets.randbits(63))


def check_name(where: str, given: object) -> None:
    """Check a name that people read."""
    if not isinstance(given, str) or not given.strip() or len(given) > 200:
        raise InputError(where, "must be text of 1 to 200 characters", given=given)
    if not given.isprintable():
        raise InputError(where, "must be text of one line, without control characters", given=given)


def check_arm_ids(where: str, given: Any, least: int) -> tuple[str, ...]:
    """Check the ids of arms; they appear in addresses, so they are plain."""
    if not is_list(given) or not least <= len(given) <= MAX_ARMS:
        raise InputError(where, f"must be a list of {least} to {MAX_ARMS} ids", given=given)
    for arm in given:
        if not isinstance(arm, str) or not _ARM.fullmatch(arm):
            rule = "must be ids of 1 to 64 letters, digits or . _ ~ -"
            raise InputError(where, rule, given=arm)
    if len(set(given)) < len(given):
        raise InputError(where, "must not name an arm twice", given=given)
    return tuple(given)


def reject_dots(where: str, given: Sequence[str]) -> None:
    """Refuse ids that can't be part of an address: clients resolve `.` and `..` as folders.

    Only for arms that are new. Campaigns that were stored with such an id must still open.
    """
    for arm in given:
        if arm in (".", ".."):
            rule = "must not be '.' or '..', which web addresses use for folders"
            raise InputError(where, rule, given=arm, todo="Use another id, such as 'dot'.")


def _kinds() -> list[str]:
    return [kind.__struct_config__.tag for kind in get_args(ServedPolicy)]
