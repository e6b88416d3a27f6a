"""Checks of changes to the settings of a running campaign."""

from __future__ import annotations

from typing import Any

from entice.errors import InputError
from entice.model.settings import HOLDOUT_DEFAULTS
from entice.service.domain.campaign_state import CampaignState
from entice.service.domain.errors import Refusal, conflict, invalid
from entice.service.domain.spec import MAX_MONEY, CampaignSpec, check_name

_SCALE = "earlier ratings and averages were recorded on the old scale"
_MONEY = "earlier payments were calculated with it, and payments could no longer be compared"
_PROMISE = "players were promised the old value, and the ratings still expected are counted with it"
FIXED_SETTINGS = {
    "arms": "use POST /v1/campaigns/{id}/arms to add arms, and PATCH …/arms/{arm} to retire one",
    "policy": "it has learned from its own earlier decisions, and the log would mix two policies",
    "segments": "earlier ratings belong to the segments that were declared, and a new segment's "
    "ratings would be missing from them",
    "lowest_rating": _SCALE,
    "highest_rating": _SCALE,
    "policy_sees": _SCALE,
    "unrated_shows": "items without ratings would suddenly display another value",
    "currency": _MONEY,
    "currency_digits": _MONEY,
    "price_of_a_star": _MONEY,
    "margin": _MONEY,
    "probe": "coin flips before and after the change could not be evaluated as one experiment",
    "plan": "it records what was planned before the campaign began",
    "planned_drift": "it records what was planned before the campaign began",
    "price": "answers to earlier prices were collected under it, and payments could no longer be "
    "compared",
    "offer_expires_after": _PROMISE,
    "rating_window": _PROMISE,
    "late_ratings": _PROMISE,
    "disclosure": "it must be the text that players saw with their offers",
    "seed": "the log is replayed with the seed of its decisions",
}
"""Settings that are fixed when a campaign is created, with the reason. `holdout` and
`holdout_feeds_averages` are fixed, too; see `_check_holdout`."""


def fixed_setting_error(name: str) -> Refusal:
    """Return the error for a change of a setting that is fixed when a campaign is created."""
    todo = "" if name == "arms" else " Close the campaign, and create a new one."
    return conflict(
        f"{name} can't be changed while a campaign runs, because it is fixed when the campaign is "
        f"created: {FIXED_SETTINGS[name]}.{todo}"
    )


def current_setting(state: CampaignState, name: str) -> Any:
    """Return the current value of a setting; None if it is not set."""
    return state.status if name == "status" else state.spec.get(name, HOLDOUT_DEFAULTS.get(name))


def check_changes(state: CampaignState, changes: dict[str, Any]) -> None:
    """Reject changes that are invalid, or that a running campaign does not allow."""
    _check_holdout(state, changes)
    if "budget" in changes:
        budget, least = changes["budget"], state.reserved + state.committed
        money = state.money.format
        if not 0 <= budget <= MAX_MONEY:
            raise invalid(f"budget must be from 0 to {MAX_MONEY}; got {budget}.")
        if budget < least:
            raise conflict(
                f"budget must be at least {least}: {money(state.committed)} is spent and "
                f"{money(state.reserved)} is reserved for open offers; got {budget} "
                f"({money(budget)}).",
                least=least,
            )
    try:
        if "name" in changes:
            check_name("name", changes["name"])
        status = {"status": "live"} if changes.get("status") == "closed" else {}
        plain = {**state.spec, "arms": state.arms, **changes, **status}
        CampaignSpec.from_plain({k: v for k, v in plain.items() if v is not None})
    except InputError as error:
        raise invalid(str(error).removeprefix("CampaignSpec: ")) from error


def _check_holdout(state: CampaignState, changes: dict[str, Any]) -> None:
    for name in HOLDOUT_DEFAULTS:
        if name in changes:
            kept = current_setting(state, name)
            raise conflict(
                f"{name} can't be changed while a campaign runs; it is {_text(kept)}, and "
                f"{_text(changes[name])} was given. Players would change groups or be treated "
                "differently within one, and the groups could no longer be compared. Close the "
                "campaign, and create a new one."
            )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
