"""Whether a campaign spends as the plan that it was created from expects."""

from __future__ import annotations

import math

import numpy as np

from entice.api_types import CampaignPlan, PlanStatus, PlanStatusView
from entice.service.domain.campaign_state import CampaignState

MIN_VISITORS, MIN_SHARE = 50, 0.01
"""Visitors, and share of the plan's visitors, before which chance decides where the spending is."""


def plan_status(
    state: CampaignState, plan: CampaignPlan, shadow_visitors: int = 0
) -> PlanStatusView:
    """Compare the committed money with the plan's range after as many visitors.

    Between the points of the plan the range is interpolated. It starts at 0. The first
    `shadow_visitors` came in shadow mode, which pays nothing, so that they do not count.
    """
    return PlanStatusView(*_compare(state, plan, shadow_visitors), shadow_visitors)


def _compare(
    state: CampaignState, plan: CampaignPlan, shadow_visitors: int
) -> tuple[PlanStatus, str, str]:
    visitors, last, money = state.decisions - shadow_visitors, plan.visitors[-1], state.money
    counted = f"{visitors:,} visitors" + (" since it went live" if shadow_visitors else "")
    if state.status == "shadow":
        text = "Shadow mode pays nothing, so its visitors are not compared with the plan."
        return PlanStatus.NOT_STARTED, text, "Go live to start the plan."
    if visitors == 0:
        text = "The plan starts with the first offer."
        return PlanStatus.NOT_STARTED, text, "Request offers from your platform."
    if visitors > last:
        text = f"The plan ended after {last:,} visitors."
        return PlanStatus.ENDED, text, "Plan again for more visitors."
    least = max(MIN_VISITORS, math.ceil(MIN_SHARE * last))
    if visitors < least:
        text = f"The spending is compared with the plan from {least:,} visitors on."
        return PlanStatus.TOO_EARLY, text, "Nothing needs to be done."
    low, high = (_planned(plan.visitors, amounts, visitors) for amounts in (plan.low, plan.high))
    text = (
        f"{money.format(state.committed)} is committed after {counted}; the plan "
        f"expects {money.format(math.floor(low))} to {money.format(math.ceil(high))}."
    )
    if state.committed > high:
        return PlanStatus.ABOVE_PLAN, text, _limit_advice(state)
    if state.committed < low:
        return PlanStatus.BELOW_PLAN, text, "Check whether visitors accept and rate."
    return PlanStatus.ON_PLAN, text, "Nothing needs to be done."


def _planned(visitors: list[int], amounts: list[int], at: int) -> float:
    return float(np.interp(at, [0, *visitors], [0, *amounts]))


def _limit_advice(state: CampaignState) -> str:
    """Return what to do about a campaign that spends too much: it can check the limits it has."""
    spec = state.spec
    capped = spec.get("cap_per_offer") or spec.get("cap_per_player")
    limits = [*(["caps"] if capped else []), *(["pace"] if spec.get("pace_over") else [])]
    if not limits:
        return "Set a pace or a cap, or raise the budget."
    return f"Check the {' and the '.join(limits)}, or raise the budget."
