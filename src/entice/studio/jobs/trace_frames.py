"""One replication as a sequence of frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from entice.study.spec import Study
from entice.study.trace import trace
from entice.worlds.changing_arms import means_by_round

MAX_FRAMES = 240


def trace_frames(
    study: Study, policy_index: int, drift_index: int, replication: int
) -> dict[str, Any]:
    """Run one replication of one cell and return it as frames.

    The rounds are those of `entice.trace`. Averages include only ratings that have arrived.
    """
    rounds = trace(
        study,
        policy=policy_index,
        drift=drift_index,
        replication=replication,
        displayed=False,
    )
    assert study.seed is not None
    means_of = means_by_round(study.arms, len(rounds), study.seed, replication)
    means = means_of[-1] if len(rounds) else study.arms.true_means()
    frames = _frames(len(rounds))
    arm, paid = rounds["arm"].to_numpy(), rounds["payment"].to_numpy()
    regret = means_of.max(axis=1) - means_of[np.arange(len(arm)), arm]
    if "seen_from" not in rounds.columns:
        rounds = rounds.with_columns(seen_from=pl.col("t") + 1)
    seen = rounds.filter(pl.col("feedback").is_not_null() & pl.col("seen_from").is_not_null())
    arrived = seen["seen_from"].to_numpy() - 1
    rated_arm, rating = seen["arm"].to_numpy(), seen["feedback"].to_numpy()
    pulls = _by_frame(frames, rounds["t"].to_numpy(), arm, np.ones(len(arm)), len(means))
    rated = _by_frame(frames, arrived, rated_arm, np.ones(len(rated_arm)), len(means))
    sums = _by_frame(frames, arrived, rated_arm, rating, len(means))
    averages = np.divide(sums, rated, out=np.full_like(sums, np.nan), where=rated > 0)
    return {
        "kind": "race",
        "policy": study.policy_labels[policy_index],
        "drift": study.drift_labels[drift_index],
        "replication": replication,
        "seed": study.seed,
        "t": frames.tolist(),
        "pulls": pulls.astype(np.int64).tolist(),
        "averages": averages.tolist(),
        "paid": np.cumsum(paid)[frames - 1].tolist(),
        "regret": np.cumsum(regret)[frames - 1].tolist(),
        "true_means": means.tolist(),
        "ended": len(rounds) if len(rounds) < study.horizon else None,
    }


def _frames(rounds: int) -> Any:
    """Return the rounds to show: at most `MAX_FRAMES`, evenly spaced, including the last."""
    count = min(rounds, MAX_FRAMES)
    return np.arange(1, count + 1, dtype=np.int64) * rounds // max(1, count)


def _by_frame(frames: Any, t: Any, arm: Any, weight: Any, arms: int) -> Any:
    """Return, for each frame and arm, the sum of the weights at or before that frame."""
    frame = np.searchsorted(frames, t)
    within = frame < len(frames)
    where = frame[within] * arms + arm[within]
    added = np.bincount(where, weights=weight[within], minlength=len(frames) * arms)
    return added.reshape(len(frames), arms).cumsum(axis=0)
