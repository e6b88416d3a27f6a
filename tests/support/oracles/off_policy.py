"""Off-policy estimates in plain Python, decision by decision: the reference."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

METHODS = ("self-normalised inverse propensity", "doubly robust", "adaptively weighted")


class Row(NamedTuple):
    """A decision: probabilities, outcome and costs, by arm where they are lists."""

    arm: int
    target: list[float]
    propensities: list[float]
    amounts: list[float]
    rated: int
    rating: float
    paid: float


def rows_of(frame: Any, target: Any, digits: int = 2) -> list[Row]:
    """Return the decisions of an export, with the probabilities of a policy."""
    rows = []
    for row, likely in zip(frame.iter_rows(named=True), target, strict=True):
        paid = 0.0 if row["arm"] == row["greedy_arm"] else (row["paid"] or 0) / 10**digits
        rows.append(
            Row(
                row["arms"].index(row["arm"]), list(likely), row["propensities"],
                [amount / 10**digits for amount in row["amounts"]],
                int(row["feedback"] is not None), row["feedback"] or 0.0, paid,
            )
        )  # fmt: skip
    return rows


def means_before(rows: list[Row], outcomes: list[float], which: list[bool], start: float) -> Any:
    """Return each arm's model before each decision: its past mean, shrunk by one overall mean."""
    arms = len(rows[0].target)
    counts, sums, found = [0] * arms, [0.0] * arms, []
    for row, outcome, counted in zip(rows, outcomes, which, strict=True):
        overall = sum(sums) / sum(counts) if sum(counts) else start
        found.append([(sums[a] + overall) / (counts[a] + 1) for a in range(arms)])
        if counted:
            counts[row.arm] += 1
            sums[row.arm] += outcome
    return found


def snips(rows: list[Row], over: list[float], under: list[float]) -> tuple[float, float]:
    """Return the estimate and its standard error."""
    weights = [row.target[row.arm] / row.propensities[row.arm] for row in rows]
    total = sum(w * u for w, u in zip(weights, under, strict=True))
    value = sum(w * y for w, y in zip(weights, over, strict=True)) / total
    squares = [
        (w * (y - value * u)) ** 2 for w, y, u in zip(weights, over, under, strict=True)
    ]  # fmt: skip
    return value, math.sqrt(sum(squares)) / total


def doubly_robust(rows: list[Row], over: Any, under: Any, models: Any) -> tuple[float, float]:
    """Return the estimate and its standard error; `models` are those of `over` and `under`."""
    means, errors = [], []
    for outcomes, model in zip((over, under), models, strict=True):
        scores, parts = 0.0, []
        for row, y, m in zip(rows, outcomes, model, strict=True):
            w = row.target[row.arm] / row.propensities[row.arm]
            scores += sum(p * v for p, v in zip(row.target, m, strict=True))
            parts.append(w * (y - m[row.arm]))
        scores += sum(parts)
        means.append(scores / len(rows))
        errors.append([part - sum(parts) / len(rows) for part in parts])
    value = means[0] / means[1]
    squares = sum((a - value * b) ** 2 for a, b in zip(*errors, strict=True))
    return value, math.sqrt(squares) / len(rows) / means[1]


def adaptive(
    rows: list[Row], outcomes: Any, models: Any, coefficients: list[float], usable: Any
) -> tuple[float, float]:
    """Return the ratio of two sums over arms of Hadad et al.'s estimates, and its error.

    With one outcome, return the sum itself.
    """
    arms = range(len(coefficients))
    masses = [
        sum(math.sqrt(row.propensities[a]) for row, ok in zip(rows, usable, strict=True) if ok[a])
        for a in arms
    ]
    totals, centred = [], []
    for outcome, model in zip(outcomes, models, strict=True):
        scores = []
        for row, y, m in zip(rows, outcome, model, strict=True):
            gamma = list(m)
            gamma[row.arm] += (y - m[row.arm]) / row.propensities[row.arm]
            scores.append(gamma)
        weights = [
            [math.sqrt(row.propensities[a]) / masses[a] if ok[a] and masses[a] else 0.0
             for a in arms]
            for row, ok in zip(rows, usable, strict=True)
        ]  # fmt: skip
        each = [
            sum(h[a] * gamma[a] for h, gamma in zip(weights, scores, strict=True)) for a in arms
        ]
        totals.append(sum(coefficients[a] * each[a] for a in arms))
        centred.append(
            [sum(coefficients[a] * h[a] * (gamma[a] - each[a]) for a in arms)
             for h, gamma in zip(weights, scores, strict=True)]
        )  # fmt: skip
    if len(totals) == 1:
        return totals[0], math.sqrt(sum(part * part for part in centred[0]))
    value = totals[0] / totals[1]
    squares = sum((a - value * b) ** 2 for a, b in zip(*centred, strict=True))
    return value, math.sqrt(squares) / totals[1]


def estimates(rows: list[Row]) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the estimates and standard errors of the rating and the payment, by all methods."""
    every, arms, size = [True] * len(rows), range(len(rows[0].target)), len(rows)
    rated, rating = [float(row.rated) for row in rows], [row.rated * row.rating for row in rows]
    ones, paid = [1.0] * size, [row.paid for row in rows]
    models = [means_before(rows, outcome, every, 0.0) for outcome in (rating, rated)]
    priced = [row.amounts[row.arm] > 0 for row in rows]
    accepted = [
        row.paid / row.amounts[row.arm] if ok else 0.0
        for row, ok in zip(rows, priced, strict=True)
    ]  # fmt: skip
    acceptance = means_before(rows, accepted, priced, 1.0)
    payments = [
        [a * q for a, q in zip(row.amounts, model, strict=True)]
        for row, model in zip(rows, acceptance, strict=True)
    ]  # fmt: skip
    shares = [sum(row.target[a] for row in rows) / size for a in arms]
    costs = [sum(row.target[a] * row.amounts[a] for row in rows) / size for a in arms]
    certain = [[1.0] * len(row.target) for row in rows]
    return {
        ("rating", METHODS[0]): snips(rows, rating, rated),
        ("rating", METHODS[1]): doubly_robust(rows, rating, rated, models),
        ("rating", METHODS[2]): adaptive(
            rows, (rating, rated), models, shares, [[True for _ in arms] for _ in rows]
        ),
        ("payment", METHODS[0]): snips(rows, paid, ones),
        ("payment", METHODS[1]): doubly_robust(rows, paid, ones, (payments, certain)),
        ("payment", METHODS[2]): adaptive(
            rows, (accepted,), (acceptance,), costs,
            [[row.amounts[a] > 0 for a in arms] for row in rows],
        ),
    }  # fmt: skip
