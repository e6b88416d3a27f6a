"""Why an offer is what it is, in plain words."""

from __future__ import annotations

from entice.service.domain.events import Offered

_LIMITS = {
    "budget": "what is left of the budget",
    "pace": "the pace of spending",
    "cap_per_offer": "the cap on one offer",
    "cap_per_player": "the cap on one player",
}


def explain(offer: Offered) -> str:
    """Say why an arm was offered, and why at that price.

    >>> from entice.service.domain.events import Offered
    >>> from entice.service.domain.explain import explain
    >>> explain(Offered("c_0", 2, 0, 1, 1, "", "oolong", "sencha", 0.25, 50, "explore", 1.0,
    ...             (4.25, 4.5), 0, 300))
    'To learn more of oolong, which looks worse than sencha by 0.25 stars: that gap is paid.'
    """
    sentence = _reason(offer)
    if offer.shadow:
        return f"{sentence} In shadow mode it is only recorded: nothing is paid."
    return sentence


def _reason(offer: Offered) -> str:
    arm, own = offer.arm, offer.greedy_arm
    gap = f"{offer.payment:.2f} stars"
    if offer.reason == "paused":
        return f"The campaign is paused: players get what looks best, {arm}, unpaid."
    if offer.probe == "heads":
        return (
            f"{arm} is the visitor's own choice. A coin added {gap} to it, to measure how much "
            "payments raise ratings."
        )
    if offer.reason == "limited":
        limit = _LIMITS.get(offer.limited_by or "", "a limit")
        if arm == own:
            return f"Limited by {limit}: {arm}, which looks best, costs nothing."
        return (
            f"Limited by {limit}, the policy chose {arm}, which looks worse than {own} by {gap}: "
            "that gap is paid."
        )
    if arm != own:
        return f"To learn more of {arm}, which looks worse than {own} by {gap}: that gap is paid."
    if offer.probe == "tails":
        return (
            f"{arm} is the visitor's own choice. A coin was thrown, to measure: it added nothing."
        )
    return f"The policy chose {arm}, which looks best anyway: nothing needs to be paid."
