"""The explanation of an offer: one sentence, and the calculation of its price line by line."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from entice.api_types import PriceCalculation, PriceStep
from entice.service.domain.campaign import Campaign
from entice.service.domain.events import Offered
from entice.service.domain.offer import OfferRecord

_LIMITS = {
    "budget": "the remaining budget",
    "pace": "the pace of spending",
    "cap_per_offer": "the cap per offer",
    "cap_per_player": "the cap per visitor",
}


_LEAST = "the least of the remaining budget, the pace and the caps"


def explain(offer: Offered, shown: Mapping[str, float] = MappingProxyType({})) -> str:
    """Return a sentence that says why an arm was offered, and why at that price.

    `shown` has the rating that each arm displays, by its id, so that the sentence can name ties.

    >>> from entice.service.domain.events import Offered
    >>> from entice.service.domain.explain import explain
    >>> explain(Offered("c_0", 2, 0, 1, 1, "", "tea", "mint", 0.25, 50, "explore", 1.0,
    ...                 (4.25, 4.5), 0, 300))
    'To learn more about tea, which shows 0.25 stars less than mint. The payment covers the gap.'
    >>> explain(Offered("c_0", 3, 0, 2, 1, "", "mint", "mint", 0.25, 50, "control", 1.0,
    ...                 (4.25, 4.5), 0, 300, gap=0.0))
    "mint is the visitor's own choice. It is paid 0.25 stars, like the items it is compared with."
    >>> explain(Offered("c_0", 4, 0, 3, 1, "", "tea", "mint", 0.16, 32, "explore", 1.0,
    ...                 (4.25, 4.5), 0, 300, gap=0.25, learned_price=0.16, price_propensity=0.96))
    'To learn more about tea, which shows 0.25 stars less than mint. The payment, 0.16 stars, is \
the cheapest price that visitors accept often enough.'
    >>> explain(Offered("c_0", 5, 0, 4, 1, "", "tea", "tea", 0.0, 0, "own_choice", 1.0,
    ...                 (4.5, 4.5, 3.0), 0, 300), {"tea": 4.5, "mint": 4.5, "cocoa": 3.0})
    'The policy chose tea, which shows the same rating as mint, 4.50 stars. Neither is more \
attractive to visitors, so nothing needs to be paid.'
    """
    sentence = _reason(offer, shown)
    return f"{sentence} Shadow mode: recorded, not paid." if offer.shadow else sentence


def _reason(offer: Offered, shown: Mapping[str, float]) -> str:
    arm, own = offer.arm, offer.greedy_arm
    stars = f"{offer.payment:.2f} stars"
    if offer.reason == "paused":
        return f"The campaign is paused: visitors are offered what looks best, {arm}, unpaid."
    if offer.reason == "holdout":
        return (
            f"The visitor is in the holdout, whose visitors are never paid, to measure the effect "
            f"of the campaign: they are offered what looks best, {arm}."
        )
    if offer.probe == "heads":
        return (
            f"{arm} is the visitor's own choice. The probe added {stars} at random, to measure how "
            "much payments raise ratings."
        )
    paid_choice = f"It is paid {stars}, like the items it is compared with."
    gap = f"which shows {stars} less than {own}. The payment covers the gap."
    if offer.gap is not None:
        less = f"which shows {offer.gap:.2f} stars less than {own}."
        gap = (
            f"{less} The payment, {stars}, covers the gap and is the same for all items that are "
            "compared."
        )
        if offer.price_propensity is not None:
            gap = f"{less} {_price(offer)}"
    if offer.reason == "overlap":
        drawn = f"Drawn at random, to learn what other policies would achieve: {arm}, "
        if arm != own:
            return drawn + gap
        return f"{drawn}the visitor's own choice. Nothing needs to be paid."
    if offer.reason == "limited":
        limit = _LIMITS.get(offer.limited_by or "", "a limit")
        if arm == own and offer.gap is not None:
            return f"Limited by {limit}: {arm}, the visitor's own choice. {paid_choice}"
        if arm == own:
            return f"Limited by {limit}: {arm}, the visitor's own choice, costs nothing."
        return f"Limited by {limit}, the policy chose {arm}, {gap}"
    if arm != own:
        return f"To learn more about {arm}, {gap}"
    if offer.reason == "control":
        return f"{arm} is the visitor's own choice. {paid_choice}"
    if offer.reason == "probe":
        return (
            f"{arm} is the visitor's own choice. The policy pays {stars}, to measure how much "
            "payments raise ratings."
        )
    if offer.probe == "tails":
        return (
            f"{arm} is the visitor's own choice. The probe, which adds a payment at random to "
            "measure how much payments raise ratings, added nothing."
        )
    if tied := _tied(offer, shown):
        others = tied[0] if len(tied) == 1 else f"{len(tied):,} other items"
        least = "Neither" if len(tied) == 1 else "None of them"
        return (
            f"The policy chose {arm}, which shows the same rating as {others}, {shown[arm]:.2f} "
            f"stars. {least} is more attractive to visitors, so nothing needs to be paid."
        )
    return f"The policy chose {arm}, the visitor's own choice: nothing needs to be paid."


def _tied(offer: Offered, shown: Mapping[str, float]) -> list[str]:
    """Return the other arms that could be offered and show as much as the visitor's own choice."""
    best, eligible = shown.get(offer.greedy_arm), offer.eligible or shown
    return [arm for arm in eligible if shown.get(arm) == best and arm != offer.arm] if best else []


def _price(offer: Offered) -> str:
    """Return the sentence about a learned price."""
    stars = f"{offer.payment:.2f} stars"
    if offer.price_explored:
        return f"The payment, {stars}, was drawn at random, to learn which prices visitors accept."
    if offer.payment == offer.gap:
        return "The payment covers the gap; no cheaper price is known to be accepted often enough."
    return f"The payment, {stars}, is the cheapest price that visitors accept often enough."


def price_calculation(campaign: Campaign, offer: OfferRecord, event: Offered) -> PriceCalculation:
    """Return the calculation of an offer's amount."""
    spec = campaign.spec
    shown = dict(zip(campaign.state.arms, event.shown, strict=False))
    calculation = PriceCalculation(
        shown=shown,
        own_choice_shows=shown[event.greedy_arm],
        arm_shows=shown[event.arm],
        payment_in_stars=event.payment,
        probe_added=event.probe_amount if event.probe == "heads" else None,
        price_of_a_star=spec.price_of_a_star,
        margin=spec.margin if offer.amount else 0,
        amount=offer.amount,
        limit=event.limit,
        limited_by=event.limited_by,
    )
    return msgspec.structs.replace(calculation, steps=_steps(calculation, offer, event))


def _steps(price: PriceCalculation, offer: OfferRecord, event: Offered) -> list[PriceStep]:
    arm, own, stars, gap = event.arm, event.greedy_arm, price.payment_in_stars, event.gap
    if arm != own:
        own_choice = "the visitor's own choice"
        steps = [
            PriceStep("", f"{own} shows", stars=price.own_choice_shows, note=own_choice),
            PriceStep("−", f"{arm} shows", stars=price.arm_shows, note="offered instead"),
            PriceStep("=", "Gap", stars=stars if gap is None else gap, level="subtotal"),
        ]
    else:
        label = f"{arm} is the visitor's own choice"
        steps = [PriceStep("", label, stars=0.0, note="no gap to cover")]
        if price.probe_added is not None:
            note = "added at random, to measure the drift"
            steps += [
                PriceStep("+", "Probe", stars=price.probe_added, note=note),
                PriceStep("=", "Payment", stars=stars, level="subtotal"),
            ]
    if gap is not None:
        sign, note = "↑", "the same for all items that are compared"
        if event.price_propensity is not None:
            sign, note = "↓", "the learned price, or the gap if that is less"
            if event.price_explored:
                note = "drawn at random, to learn which prices visitors accept"
        steps.append(PriceStep(sign, "Payment", stars=stars, note=note, level="subtotal"))
    if price.amount > 0:
        exact, rounded = stars * price.price_of_a_star, price.amount - price.margin
        steps += [
            PriceStep("×", "Price of a star", amount=price.price_of_a_star),
            PriceStep("=", "Exact amount", amount=exact),
            PriceStep("↑", "Rounded up", amount=rounded, level="subtotal"),
        ]
        if price.margin:
            note = "added to every payment"
            steps.append(PriceStep("+", "Margin", amount=price.margin, note=note))
    label = "Would be offered" if offer.shadow else "Offered"
    steps.append(PriceStep("=", label, amount=price.amount, level="total"))
    if offer.shadow:
        steps.append(PriceStep("", "Shadow mode", amount=0, note="recorded, not paid"))
    elif offer.paid is not None and offer.paid != price.amount:
        steps.append(PriceStep("", "Paid", amount=offer.paid, note="less was accepted"))
    limit = _LIMITS.get(price.limited_by or "")
    note = f"{limit}, which changed the choice" if limit else _LEAST
    return [*steps, PriceStep("≤", "Limit of this offer", amount=price.limit, note=note)]
