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


def amount_group(amount: float) -> float:
    """Return a number that amounts have in common if a power of 1.25 does not separate them."""
    return math.floor(math.log(amount) / math.log(1.25)) if amount > 0 else -math.inf


def weight_tables(rows: list[Row], method: str, totals: list[list[float]]) -> list[list[float]]:
    """Return the weight of each arm in each decision; `totals` are those without adaption."""
    if method != METHODS[2]:
        return totals
    arms = range(len(totals[0]))
    group = [[(a, amount_group(row.amounts[a])) for a in arms] for row in rows]
    wanted: dict[Any, float] = {}
    mass: dict[Any, float] = {}
    for row, keys, total in zip(rows, group, totals, strict=True):
        for a in arms:
            wanted[keys[a]] = wanted.get(keys[a], 0.0) + total[a]
            mass[keys[a]] = mass.get(keys[a], 0.0) + math.sqrt(row.propensities[a])
    return [
        [math.sqrt(row.propensities[a]) * wanted[keys[a]] / mass[keys[a]] for a in arms]
        for row, keys in zip(rows, group, strict=True)
    ]


def rating_estimate(rows: list[Row], method: str, z: float) -> tuple[float, ...]:
    """Return the estimate, its standard error, and Fieller's interval, found by bisection."""
    weights = weight_tables(rows, method, [row.target for row in rows])
    every, sums, errors = [True] * len(rows), [], []
    for outcomes in ([row.rated * row.rating for row in rows], [float(r.rated) for r in rows]):
        models = means_before(rows, outcomes, every, 0.0)
        if method == METHODS[0]:
            models = [[0.0] * len(model) for model in models]
        total, parts = 0.0, []
        for row, w, y, m in zip(rows, weights, outcomes, models, strict=True):
            total += sum(v * x for v, x in zip(w, m, strict=True))
            parts.append(w[row.arm] / row.propensities[row.arm] * (y - m[row.arm]))
        sums.append(total + sum(parts))
        errors.append(parts)

    def rejected(theta: float) -> bool:
        squares = sum((a - theta * b) ** 2 for a, b in zip(*errors, strict=True))
        return bool((sums[0] - theta * sums[1]) ** 2 > z**2 * squares)

    value = sums[0] / sums[1]
    squares = sum((a - value * b) ** 2 for a, b in zip(*errors, strict=True))
    ends = []
    for far in (value - 1000, value + 1000):
        inside, outside = value, far
        for _ in range(100):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if rejected(middle) else (middle, outside)
        ends.append(inside)
    return value, math.sqrt(squares) / sums[1], *ends


def payment_estimate(rows: list[Row], method: str, z: float) -> tuple[float, ...]:
    """Return the estimate, its standard error, and the interval of Agresti and Coull."""
    arms, size = range(len(rows[0].target)), len(rows)
    plain = [[row.target[a] * row.amounts[a] / size for a in arms] for row in rows]
    cost = sum(map(sum, plain))
    weights = weight_tables(rows, method, plain)
    priced = [row.amounts[row.arm] > 0 for row in rows]
    shares = [
        row.paid / row.amounts[row.arm] if ok else 0.0 for row, ok in zip(rows, priced, strict=True)
    ]
    observed = [
        w[row.arm] / row.propensities[row.arm] if ok else 0.0
        for row, w, ok in zip(rows, weights, priced, strict=True)
    ]
    if method == METHODS[0]:
        share = sum(o * q for o, q in zip(observed, shares, strict=True)) / (sum(observed) or 1.0)
        value, errors = cost * share, [q - share for q in shares]
    else:
        models = means_before(rows, shares, priced, 1.0)
        errors = [q - m[row.arm] for row, q, m in zip(rows, shares, models, strict=True)]
        value = sum(
            v * x for w, m in zip(weights, models, strict=True) for v, x in zip(w, m, strict=True)
        )
        value += sum(o * e for o, e in zip(observed, errors, strict=True))
    variance = slope = curvature = 0.0
    for a in arms:
        every = [i for i in range(size) if priced[i]]
        answers = [i for i in every if rows[i].arm == a] or every
        c = sum(w[a] ** 2 / row.propensities[a] for row, w in zip(rows, weights, strict=True))
        mean = sum(shares[i] for i in answers) / len(answers)
        square = sum(shares[i] ** 2 for i in answers) / len(answers)
        variance += c * sum(errors[i] ** 2 for i in answers) / len(answers)
        slope += c * (square / mean - 2 * mean)
        curvature += c
    stderr = math.sqrt(variance)
    if curvature == 0 or cost**2 / curvature < 30:
        return value, stderr, 0.0, cost
    shift = z**2 * slope / (2 * (cost**2 + z**2 * curvature))
    there = variance + slope * shift - curvature * shift**2
    half = cost * z * math.sqrt(there / (cost**2 + z**2 * curvature))
    return value, stderr, value + cost * shift - half, value + cost * shift + half


def estimates(rows: list[Row], z: float) -> dict[tuple[str, str], tuple[float, ...]]:
    """Return the estimates of the rating and the payment, by all methods.

    Each has the value, its standard error, and the ends of its interval.
    """
    return {
        (quantity, method): estimate(rows, method, z)
        for quantity, estimate in (("rating", rating_estimate), ("payment", payment_estimate))
        for method in METHODS
    }
