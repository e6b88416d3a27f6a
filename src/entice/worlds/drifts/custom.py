"""User-defined drift functions, compiled to the speed of the built-in ones.

The function is compiled by `entice.jit.user_code.compile_user_function` when a study or a check
first runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from entice.checks import set_number, set_numbers
from entice.errors import InputError
from entice.jit.decorators import import_path, plain_python
from entice.user_functions import custom_label, is_placeholder, set_function
from entice.worlds.drifts.drift import DriftKernel, DriftSpec


class CustomDrift(DriftSpec, frozen=True, tag="custom"):
    """A user-defined drift: any function `f(payment, t, arm, params) -> drift`.

    Parameters
    ----------
    function
        A Python function in the subset that Numba compiles, or its ``"module:name"``. It may depend
        on the round t (a time-varying f_t) and on the arm. f(0) must be 0.
    params
        Numbers passed to the function, so that one function defines a family of drifts.
    lipschitz
        The constant l of Assumption 1, over all rounds and arms, if known: the bounds of
        `entice.theory` need it. `check_drift` searches for a violation.

    >>> import entice
    >>> def fading(payment, t, arm, params):
    ...     return params[0] * payment / t**0.5
    >>> entice.CustomDrift(fading, params=[2]).label
    'fading(2)'
    """

    function: Any
    params: Sequence[float] = ()
    lipschitz: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        set_function(self, "function", ("payment", "t", "arm", "params"))
        set_numbers(self, "params")
        if self.lipschitz is not None and set_number(self, "lipschitz") < 0:
            raise InputError("CustomDrift: lipschitz", "must not be negative", given=self.lipschitz)
        if is_placeholder(self.function):
            return
        try:
            at_zero = plain_python(self.function)(0.0, 1, 0, self.params)
        except Exception as error:  # a user's function can raise anything
            raise InputError(
                f"CustomDrift: {import_path(self.function)}",
                "must return 0 for a payment of 0, and not raise an error",
                given=error,
                todo=f"It was called with params={self.params}.",
            ) from error
        if not isinstance(at_zero, (int, float, np.number)) or at_zero != 0:
            raise InputError(
                f"CustomDrift: {import_path(self.function)}",
                "must return 0 for a payment of 0 (Assumption 1 of the paper)",
                given=at_zero,
                todo="Without a payment there is no drift.",
            )

    @property
    def default_label(self) -> str:  # noqa: D102
        return custom_label(self.function, self.params)

    def kernel(self) -> DriftKernel:  # noqa: D102
        return DriftKernel(self.function, tuple(self.params))
