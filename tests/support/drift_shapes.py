"""Drifts of many shapes in one function, so that tests of equal pay share one compilation."""

from __future__ import annotations

import entice


def shaped(payment: float, t: int, arm: int, params: tuple[float, ...]) -> float:
    """Return a sum of a line, a step and a parabola."""
    slope, jump, square = params
    return slope * payment + (jump if payment > 0.0 else 0.0) + square * payment * payment


SHAPES = {
    "none": (0.0, 0.0, 0.0),
    "linear 1.1": (1.1, 0.0, 0.0),
    "linear 5": (5.0, 0.0, 0.0),
    "step": (0.0, 0.3, 0.0),
    "convex": (0.0, 0.0, 5.0),
    "negative": (-1.1, 0.0, 0.0),
}


def drift_of(shape: str) -> entice.CustomDrift:
    """Return the drift of a shape."""
    return entice.CustomDrift(shaped, params=SHAPES[shape])
