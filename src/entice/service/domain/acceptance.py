"""The acceptance curve of a campaign with a learned price, as the API returns it."""

from __future__ import annotations

from entice.api_types import AcceptanceView, PricePoint
from entice.model.learned_price import MIN_ANSWERS, NOT_LEARNED, cheapest_eligible, fit_curve
from entice.money import amount_of
from entice.service.domain.campaign_state import CampaignState
from entice.service.domain.pricing import curve_of
from entice.service.domain.spec import CampaignSpec

_NONE = (
    "This campaign has no learned price: every payment covers the gap. Set `price` when you create "
    "a campaign."
)


def acceptance_view(state: CampaignState) -> AcceptanceView:
    """Return the acceptance curve of a campaign. This reads its counts only."""
    money = state.money
    labels = state.campaign, money.code, money.digits
    if state.acceptance is None:
        return AcceptanceView(*labels, None, None, None, None, MIN_ANSWERS, [], _NONE)
    spec = CampaignSpec.from_plain({**state.spec, "arms": state.arms, "status": "live"})
    assert spec.price is not None
    curve = curve_of(spec, state.acceptance)
    # The uncompiled functions: views are too rare for their compilation to pay off.
    fit_curve.py_func(curve)  # type: ignore[attr-defined]
    learned = cheapest_eligible.py_func(curve, spec.price.acceptance)  # type: ignore[attr-defined]
    points = [
        PricePoint(
            price, amount_of(price, spec.price_of_a_star, spec.margin), answers, accepted,
            pooled_accepted / pooled_answers if pooled_answers else None,
        )
        for price, answers, accepted, pooled_answers, pooled_accepted in zip(
            *(column.tolist() for column in curve), strict=True
        )
    ]  # fmt: skip
    wanted = f"{100 * spec.price.acceptance:.3g} %"
    answers = sum(point.answers for point in points)
    answered = f"{answers:,} answer{'' if answers == 1 else 's'}"
    if learned == NOT_LEARNED:
        price, amount = None, None
        sentence = (
            f"No price with at least {MIN_ANSWERS} answers is accepted by {wanted} of the visitors "
            f"yet ({answered} so far), so payments cover the gap."
        )
    else:
        price, amount = points[learned].price, points[learned].amount
        sentence = (
            f"{money.format(amount)} ({price:.3g} stars) is the cheapest price that {wanted} of "
            f"the visitors accept, by {answered}. Larger gaps are paid this price, smaller ones "
            "the gap."
        )
    return AcceptanceView(
        *labels, spec.price.acceptance, spec.price.explore, price, amount, MIN_ANSWERS, points,
        sentence,
    )  # fmt: skip
