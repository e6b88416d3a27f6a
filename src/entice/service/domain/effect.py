"""The effect of a campaign with a holdout, from the totals in its state."""

from __future__ import annotations

import msgspec

from entice.api_types import EffectGroupView, EffectView, SplitView
from entice.estimate.effect import METHOD, GroupResult, GroupTotals, measure_effect
from entice.service.domain.campaign_state import CampaignState
from entice.service.domain.holdout import HOLDOUT, PAID, GroupCounts

CONFIDENCE = 0.95
"""The probability that the interval contains the true difference at every look."""
_NO_SPLIT_CHECK = (
    "Whether visitors were split as intended can't be checked: all of them had their first offer "
    "while the campaign was paused or in shadow mode."
)


def effect_view(state: CampaignState) -> EffectView:
    """Return the effect of a campaign. This reads its totals only, however many offers it made."""
    spec, money = state.spec, state.money
    labels = state.campaign, money.code, money.digits
    if not state.groups:
        empty = EffectGroupView(0, 0, 0, 0, 0, 0, None, None, None, 0)
        note = "the campaign has no holdout"
        return EffectView(
            *labels, 0.0, empty, empty, None, None, None, CONFIDENCE, METHOD, None, None, None,
            note, None, "no_holdout",
            "This campaign has no holdout, so its effect can't be measured: nobody knows what its "
            "visitors would have done without it. Set `holdout` when you create a campaign.",
        )  # fmt: skip
    paid, holdout = (_totals(state.groups[group]) for group in (PAID, HOLDOUT))
    effect = measure_effect(
        paid, holdout, holdout_share=spec["holdout"], lowest_rating=spec["lowest_rating"],
        highest_rating=spec["highest_rating"], confidence=CONFIDENCE, currency=money,
    )  # fmt: skip
    split, sentence = None, effect.sentence
    if effect.split.observed is not None:
        split = SplitView(*msgspec.structs.astuple(effect.split))
    elif paid.visitors + holdout.visitors > 0:
        sentence += f" {_NO_SPLIT_CHECK}"
    return EffectView(
        *labels, spec["holdout"],
        _group(state.groups[PAID], effect.paid), _group(state.groups[HOLDOUT], effect.holdout),
        effect.difference, effect.low, effect.high, effect.confidence, effect.method,
        effect.cost_per_star, effect.cost_low, effect.cost_high, effect.cost_note,
        split, effect.verdict, sentence,
    )  # fmt: skip


def _totals(counts: GroupCounts) -> GroupTotals:
    return GroupTotals(**msgspec.structs.asdict(counts))


def _group(counts: GroupCounts, result: GroupResult) -> EffectGroupView:
    return EffectGroupView(
        counts.visitors, counts.players, counts.rated, counts.rating_sum, counts.rating_squares,
        counts.paid, result.rating, result.share_rated, result.payment, result.declined,
    )  # fmt: skip
