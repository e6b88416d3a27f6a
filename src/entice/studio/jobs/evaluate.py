"""Estimate what another policy would have achieved, from a campaign's log."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from entice.estimate import Uniform, evaluate
from entice.estimate.off_policy import PolicyEstimate
from entice.estimate.off_policy_methods import DOUBLY_ROBUST
from entice.policies import UCB, Greedy, ThompsonSampling
from entice.service.operations.export import export_campaign
from entice.service.storage.store import open_store

TARGETS: dict[str, Any] = {
    "greedy": Greedy(),
    "ucb": UCB(),
    "thompson_sampling": ThompsonSampling(),
    "uniform": Uniform(),
}


class EstimateView(msgspec.Struct, frozen=True):
    """A doubly robust estimate with its 95 % interval."""

    value: float | None
    low: float | None
    high: float | None
    effective: float | None
    """Number of equally weighted observations that would be as precise."""


class EvaluationView(msgspec.Struct, frozen=True, tag_field="kind", tag="evaluation"):
    """What a policy would have achieved in the decisions of a campaign with overlap."""

    policy: str
    rating: EstimateView
    """Rating per rated visitor, in stars."""
    payment: EstimateView
    """Payment per visitor, in major units of the currency."""
    logged_rating: float
    """Rating per rated visitor of the campaign itself, in the same decisions."""
    logged_payment: float
    decisions: int
    rated: int
    left_out: dict[str, int]
    """Number of decisions that were left out, by reason."""
    warnings: list[str]


def evaluate_campaign(db: str, campaign: str, policy: str) -> dict[str, Any]:
    """Evaluate a policy of `TARGETS` on a campaign's export."""
    with (
        contextlib.closing(open_store(db)) as store,
        tempfile.TemporaryDirectory(prefix="entice-evaluation-") as folder,
    ):
        path = Path(folder) / "campaign.parquet"
        export_campaign(store, campaign, "parquet", path)
        found = evaluate(path, TARGETS[policy])
    view = EvaluationView(
        policy,
        _view(found.rating[DOUBLY_ROBUST]),
        _view(found.payment[DOUBLY_ROBUST]),
        found.logged_rating,
        found.logged_payment,
        found.decisions,
        found.rated,
        found.left_out,
        list(found.warnings),
    )
    plain: dict[str, Any] = msgspec.to_builtins(view)
    return plain


def _view(found: PolicyEstimate) -> EstimateView:
    """Return an estimate. msgspec encodes numbers that are not finite as null."""
    return EstimateView(found.value, found.low, found.high, found.effective)
