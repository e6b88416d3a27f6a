"""The settings that plans and campaigns share: the same names, units and checks."""

from __future__ import annotations

from typing import Any, Literal, get_args

from entice.checks import field_name, set_number, set_share, set_whole
from entice.errors import InputError
from entice.model.probe import Probe
from entice.money import amount_of

PolicyScale = Literal["stars", "zero_to_one"]
"""The scale on which policies see ratings."""

RATING_WINDOW = 30 * 24 * 3600
"""Default number of seconds for which a rating is awaited."""
YEAR = 366 * 24 * 3600
"""The longest year, in seconds."""
MAX_MONEY = 10**15
"""Upper limit on amounts, in minor units. Their sums fit into a database's integers."""


SHARED = (
    "policy_sees", "unrated_shows", "pace_over", "probe", "overlap", "rating_window",
    "late_ratings", "holdout", "holdout_feeds_averages", "price",
)  # fmt: skip
"""The settings that plans and campaigns have in common, except for money."""

HOLDOUT_DEFAULTS: dict[str, Any] = {"holdout": 0.0, "holdout_feeds_averages": True}
"""The settings of the holdout. A default is left out of stored specs, which may be older."""


def check_settings(spec: Any, lowest: int, highest: int) -> None:
    """Check the settings of a plan or a campaign with ratings from `lowest` to `highest`."""
    if spec.policy_sees not in get_args(PolicyScale):
        rule = 'must be "stars" or "zero_to_one"'
        raise InputError(field_name(spec, "policy_sees"), rule, given=spec.policy_sees)
    if spec.unrated_shows is not None:
        set_number(spec, "unrated_shows")
        if not lowest <= spec.unrated_shows <= highest:
            rule = f"must be from {lowest} to {highest} stars"
            raise InputError(field_name(spec, "unrated_shows"), rule, given=spec.unrated_shows)
    if spec.pace_over is not None:
        set_whole(spec, "pace_over", at_least=1)
    if spec.probe is not None:
        if not isinstance(spec.probe, Probe):
            raise InputError(field_name(spec, "probe"), "must be a Probe", given=spec.probe)
        if max(spec.probe.amounts) > highest - lowest:
            rule = f"must be at most the {highest - lowest} stars of the scale"
            raise InputError(field_name(spec, "probe.amount"), rule, given=spec.probe.amount)
    set_share(spec, "overlap", of="decisions", without="overlap", typical=0.05)
    set_whole(spec, "rating_window", at_least=1, at_most=10 * YEAR)
    set_share(spec, "holdout", of="players", without="holdout", typical=0.1)
    for name in ("late_ratings", "holdout_feeds_averages"):
        if not isinstance(given := getattr(spec, name), bool):
            raise InputError(field_name(spec, name), "must be true or false", given=given)


def without_holdout_defaults(plain: dict[str, Any]) -> dict[str, Any]:
    """Leave out the settings of the holdout that have their defaults."""
    defaults = HOLDOUT_DEFAULTS.items()
    return {k: v for k, v in plain.items() if (k, v) not in defaults}


def check_probe_cost(spec: Any, price_of_a_star: int) -> None:
    """Reject a probe that adds less than one minor unit, the smallest amount of money."""
    if spec.probe is not None and amount_of(min(spec.probe.amounts), price_of_a_star, 0) < 1:
        rule = "must cost at least one minor unit, or heads and tails pay the same"
        raise InputError(field_name(spec, "probe.amount"), rule, given=spec.probe.amount)
