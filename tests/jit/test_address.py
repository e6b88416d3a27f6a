"""Compiled functions that compiled code calls by their address."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numba import types

from entice.errors import InputError
from entice.jit.address import AddressedFunction, pack_params, whole_number
from entice.jit.decorators import OPTIONS, inline_always

pytestmark = pytest.mark.usefixtures("unmeasured")


@inline_always
def _evaluate(function: Any, unpack: Any, x: int, params: Any) -> int:
    return whole_number(function(x, unpack(params)))  # type: ignore[no-any-return]


KIND = AddressedFunction(_evaluate, types.int64, 0, np.zeros(1))
_call = KIND.call


@numba.njit(**OPTIONS)  # type: ignore[untyped-decorator]
def _run(address: int, x: int, params: Any) -> int:
    return int(_call(address, (x, params)))


def _evaluated(function: Any, x: int, given: tuple[Any, ...]) -> int:
    params, unpack = pack_params(given)
    return int(_run(KIND.address(function, unpack), x, params))


def test_a_compiled_caller_runs_functions_with_parameters_of_any_kind() -> None:
    """Each result depends on every parameter, and on its type."""

    def numbers(x, params):  # type: ignore[no-untyped-def]
        return x + 10 * params[0] // 4 + round(100 * params[1] / 4)

    def arrays(x, params):  # type: ignore[no-untyped-def]
        first, second = params
        return x + first.shape[0] + int(10 * first[1] + 100 * second[0] + 1000 * second[1])

    assert _evaluated(numbers, 3, (7, 2.0)) == 3 + 17 + 50
    assert _evaluated(arrays, 3, (np.array([1.0, 2.0]), np.array([3.0, 4.0]))) == 4325
    assert len(_run.signatures) == 1


def test_an_error_in_the_function_is_raised_by_its_caller() -> None:
    def fails(x, params):  # type: ignore[no-untyped-def]
        if x > 1:
            raise ValueError("too large")
        return x

    assert _evaluated(fails, 1, ()) == 1
    with pytest.raises(ValueError, match="too large"):
        _evaluated(fails, 2, ())


def test_a_function_of_the_wrong_kind_is_rejected() -> None:
    def half(x, params):  # type: ignore[no-untyped-def]
        return x / 2

    with pytest.raises(InputError, match="half must be in the subset of Python that Numba"):
        _evaluated(half, 1, ())
