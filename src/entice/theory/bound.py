"""The `Bound` class: formulas, policies, assumptions, and checks against a study."""

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
    """The result of a check, which is also its truth value, and the reasons."""

    result: bool
    reasons: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.result


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A published bound on a metric of a policy.

    Attributes
    ----------
    name : str
        The result that states it, such as "Theorem 1".
    metric : str
        The bounded metric: one of `Result`, or `payment` or `arm_drift`, which traces contain.
    kind : str
        `upper` or `lower`.
    description : str
        The bounded quantity, in words.
    policies : tuple of types
        The policies that the bound is about.
    as_stated, as_proved : functions
        The value as a function of T (a number or an array) and of keywords such as `gaps` or
        `means`, `l` and `c`. The same function if statement and proof agree.
    assumptions : tuple of functions
        Each yields the reasons why it is not met in a setting.
    formula_arguments : function
        Returns the keyword arguments of the formulas for a setting.
    value_is_at_least : bool
        Whether the formula contains an unknown. The value for a study is then the smallest
        possible one, so the bound is at least that.

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
    description: str
    policies: tuple[type[PolicySpec], ...]
    as_stated: Formula
    as_proved: Formula
    assumptions: tuple[Assumption, ...]
    formula_arguments: Callable[[Setting], dict[str, Any]]
    kind: Literal["upper", "lower"] = "upper"
    value_is_at_least: bool = False

    def __repr__(self) -> str:
        return f"<{self.name}: {self.kind} bound on {self.description}>"

    @property
    def versions(self) -> tuple[Version, ...]:
        """Both versions, or only `as_stated` if the proof gives the same."""
        return ("as_stated",) if self.as_stated is self.as_proved else ("as_stated", "as_proved")

    def applies(self, study: Study) -> BoundCheck:
        """Check whether all assumptions of the bound are met in a study.

        If a study has several cells with the policy, the assumptions must be met in each.
        """
        return self._over_cells(study, self.unmet_assumptions, all)

    def vacuous(self, study: Study) -> BoundCheck:
        """Check whether the bound is vacuous: no run could violate it, in any cell of the policy.

        An upper bound is vacuous if it is not below the largest possible value. A lower bound is
        vacuous if it is 0, or if the horizon is so short that it exceeds the largest possible
        value. If `value_is_at_least` is set, the exact value is unknown, and so is the answer where
        this method returns False.
        """
        return self._over_cells(
            study, self.vacuous_reasons, lambda informative: not any(informative)
        )

    def covers(self, setting: Setting) -> bool:
        """Return whether the bound is about the cell's policy."""
        return isinstance(setting.policy, self.policies)

    def unmet_assumptions(self, setting: Setting) -> tuple[str, ...]:
        """Return the reasons why the bound does not apply in one cell."""
        return tuple(reason for assumption in self.assumptions for reason in assumption(setting))

    def vacuous_reasons(self, setting: Setting, version: Version = "as_proved") -> tuple[str, ...]:
        """Return the reasons why the bound is vacuous in one cell."""
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
        asymptotic = "asymptotic, and at this horizon " if self.kind == "lower" else ""
        return (f"{asymptotic}beyond the largest possible value, {most:,.0f} ({why})",)

    def value(self, setting: Setting, T: Any, version: Version = "as_stated") -> Floats:
        """Return the bound after T rounds of one cell.

        It is nan if the drift's Lipschitz constant l is unknown, infinite if it does not exist.
        """
        rounds, arguments = rounds_from(T), self.formula_arguments(setting)
        if not math.isfinite(arguments.get("l", 0.0)):
            return np.full(rounds.shape, arguments["l"])
        return np.asarray(getattr(self, version)(rounds, **arguments))

    def _over_cells(
        self,
        study: Study,
        find_reasons: Callable[[Setting], tuple[str, ...]],
        combine: Callable[[list[bool]], bool],
    ) -> BoundCheck:
        if not isinstance(study, Study):
            todo = "For a result, pass result.study."
            raise InputError("study", "must be a Study", given=study, todo=todo)
        cells = [setting for setting in study_settings(study) if self.covers(setting)]
        if not cells:
            names = " or ".join(policy.__name__ for policy in self.policies)
            return BoundCheck(False, (f"the bound is about {names}, which the study does not run",))
        found = [find_reasons(setting) for setting in cells]
        several = len(cells) > 1
        return BoundCheck(
            combine([not reasons for reasons in found]),
            tuple(merge_reasons(cells, found) if several else found[0]),
        )


def merge_reasons(cells: list[Setting], found: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield each reason once, preceded by its cells if it does not hold for all of them."""
    every = dict.fromkeys(reason for reasons in found for reason in reasons)
    for reason in every:
        where = [s for s, reasons in zip(cells, found, strict=True) if reason in reasons]
        if len(where) == len(cells):
            yield reason
        else:
            names = ", ".join(f"{s.policy.label} with {s.drift.label}" for s in where)
            yield f"{names}: {reason}"
