"""What a bound is: formulas, the cells it speaks of, what it assumes, and when it says nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from entice.errors import InputError
from entice.policies.policy import PolicySpec
from entice.study.spec import Study
from entice.theory.inputs import Floats, rounds_from
from entice.theory.setting import Setting, largest_value, study_settings

Formula = Callable[..., Any]
Assumption = Callable[[Setting], Iterable[str]]
Version = Literal["as_stated", "as_proved"]


class BoundCheck(NamedTuple):
    """Yes or no, as its truth value, with the reasons."""

    yes: bool
    reasons: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.yes


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A bound of the literature on a metric of a policy.

    Attributes
    ----------
    name : str
        Where it stands: "Theorem 1".
    metric : str
        What it bounds: a metric of `Result`, or `payment` and `arm_drift`, which a trace has.
    kind : str
        `upper` or `lower`.
    of : str
        What is bounded, in words.
    policies : tuple of types
        Whom it speaks of.
    as_stated, as_proved : functions
        The value, of T (a number or an array) and of keywords such as `gaps` or `means`, `l` and
        `c`. The same function twice where statement and proof agree.
    assumes : tuple of functions
        Each says what speaks against the bound in a setting.
    knows : function
        The keywords of the formulas, from a setting.
    only_at_least : bool
        Something in the formula can't be known; the value for a study takes the most favourable
        one, so that the bound is at least that.

    >>> import entice
    >>> bound = entice.theory.theorem1.regret
    >>> means = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    >>> [round(f(20_000, means=means, l=1.1)) for f in (bound.as_stated, bound.as_proved)]
    [9591, 9508]
    >>> study = entice.Study(arms=entice.Gaussian(means), policies=[entice.UCB()], horizon=20_000)
    >>> bound.applies(study).reasons
    ('not claimed for Gaussian rewards: the model has rewards in [0, 1]',)
    """

    name: str
    metric: str
    of: str
    policies: tuple[type[PolicySpec], ...]
    as_stated: Formula
    as_proved: Formula
    assumptions: tuple[Assumption, ...]
    formula_arguments: Callable[[Setting], dict[str, Any]]
    kind: Literal["upper", "lower"] = "upper"
    value_is_at_least: bool = False

    def __repr__(self) -> str:
        return f"<{self.name}: {self.kind} bound on {self.of}>"

    @property
    def versions(self) -> tuple[Version, ...]:
        """The versions that differ: both, or the one that is the same."""
        return ("as_stated",) if self.as_stated is self.as_proved else ("as_stated", "as_proved")

    def applies(self, study: Study) -> BoundCheck:
        """Tell whether everything that the bound assumes holds in a study, and what does not.

        Where a study has several cells of the policy, all of them count.
        """
        return self._over_cells(study, self.unmet_assumptions, all)

    def vacuous(self, study: Study) -> BoundCheck:
        """Tell whether the bound says nothing: no run could break it, in any cell of the policy.

        An upper bound says nothing beyond the largest possible value, a lower one at 0, and at
        horizons so short that it lies beyond the largest possible value. Where the value is only
        known to be `at least` something, no means: not known.
        """
        return self._over_cells(study, self.vacuous_reasons, lambda free: not any(free))

    def covers(self, setting: Setting) -> bool:
        """Tell whether the bound speaks of a cell's policy."""
        return isinstance(setting.policy, self.policies)

    def unmet_assumptions(self, setting: Setting) -> tuple[str, ...]:
        """What speaks against the bound in one cell."""
        return tuple(doubt for assumption in self.assumptions for doubt in assumption(setting))

    def vacuous_reasons(self, setting: Setting, version: Version = "as_proved") -> tuple[str, ...]:
        """Why the bound says nothing in one cell, if it does not."""
        value = float(self.value(setting, setting.study.horizon, version))
        if math.isnan(value):
            return ()
        if self.kind == "lower" and value <= 0:
            return ("its value is 0",)
        if math.isinf(value):
            return (f"infinite: {setting.drift.label} has no finite l",)
        most, why = largest_value(self.metric, setting)
        if value < most:
            return ()
        late = "asymptotic, and at this horizon " if self.kind == "lower" else ""
        return (f"{late}beyond the largest possible value, {most:,.0f} ({why})",)

    def value(self, setting: Setting, T: Any, version: Version = "as_stated") -> Floats:
        """The bound after T rounds of one cell: nan if l is unknown, infinite if there is none."""
        rounds, known = rounds_from(T), self.formula_arguments(setting)
        if not math.isfinite(known.get("l", 0.0)):
            return np.full(rounds.shape, known["l"])
        return np.asarray(getattr(self, version)(rounds, **known))

    def _over_cells(
        self,
        study: Study,
        reasons_of: Callable[[Setting], tuple[str, ...]],
        classify_growth: Callable[[list[bool]], bool],
    ) -> BoundCheck:
        if not isinstance(study, Study):
            todo = "Of a result, take result.study."
            raise InputError("study", "must be a Study", given=study, todo=todo)
        cells = [setting for setting in study_settings(study) if self.covers(setting)]
        if not cells:
            names = " or ".join(policy.__name__ for policy in self.policies)
            return BoundCheck(False, (f"it speaks of {names}, which the study does not run",))
        found = [reasons_of(setting) for setting in cells]
        several = len(cells) > 1
        return BoundCheck(
            classify_growth([not reasons for reasons in found]),
            tuple(merge_reasons(cells, found) if several else found[0]),
        )


def merge_reasons(cells: list[Setting], found: list[tuple[str, ...]]) -> Iterator[str]:
    """Say each reason once; one that is not true of all cells, with those of which it is."""
    every = dict.fromkeys(reason for reasons in found for reason in reasons)
    for reason in every:
        where = [s for s, reasons in zip(cells, found, strict=True) if reason in reasons]
        if len(where) == len(cells):
            yield reason
        else:
            names = ", ".join(f"{s.policy.label} with {s.drift.label}" for s in where)
            yield f"{names}: {reason}"
