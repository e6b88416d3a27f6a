"""Remembered types of operations are those that Numba finds."""

from __future__ import annotations

import gc
import itertools
import operator
import weakref
from typing import Any

import pytest
from numba import types
from numba.core.errors import TypingError
from numba.core.registry import cpu_target
from numba.core.types.functions import BaseFunction
from numba.core.typing.templates import ConcreteTemplate, signature

from entice.jit import operator_types

CONTEXT = cpu_target.typing_context
ARGUMENTS: tuple[Any, ...] = (
    types.float64, types.int64, types.uint64, types.int8, types.boolean, types.literal(3),
    types.float64[::1], types.int64[:, ::1], types.UniTuple(types.float64, 2),
)  # fmt: skip
OPERATORS: tuple[Any, ...] = (
    operator.add, operator.iadd, operator.sub, operator.mul, operator.truediv, operator.floordiv,
    operator.mod, operator.pow, operator.lt, operator.eq, operator.getitem, operator.and_,
    operator.rshift,
)  # fmt: skip


def call_type(function: Any, *args: Any) -> Any:
    try:
        return function.get_call_type(CONTEXT, args, {})
    except (TypingError, AttributeError):  # the latter for an array += a tuple
        return None


def function_type(operation: Any) -> Any:
    cpu_target.target_context.refresh()
    return CONTEXT.resolve_value_type(operation)


@pytest.mark.parametrize("operation", OPERATORS)
def test_signatures_are_those_of_numba(operation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_types, "_found", {})
    function = function_type(operation)
    for args in itertools.product(ARGUMENTS, repeat=2):
        expected = call_type(function, *args)
        key = None if expected is None else function.get_impl_key(expected)
        with operator_types.remembered_operator_types():
            found = [call_type(function, *args) for _ in range(2)]
        assert found == [expected] * 2, args
        assert expected is None or function.get_impl_key(expected) is key, args
    assert operator_types._found


def test_a_remembered_signature_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[Any] = []
    numbas = operator_types._find

    def find(function: Any, *args: Any) -> Any:
        looked_up.append(function.typing_key)
        return numbas(function, *args)

    monkeypatch.setattr(operator_types, "_found", {})
    monkeypatch.setattr(operator_types, "_find", find)
    with operator_types.remembered_operator_types():
        for _ in range(3):
            assert call_type(function_type(operator.add), types.float64, types.int64) is not None
            assert call_type(function_type(max), types.float64, types.float64) is not None
    assert looked_up.count(operator.add) == 1
    assert looked_up.count(max) == 3


def test_an_implementation_that_is_added_later_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package may register an operation on its own types at any time."""
    monkeypatch.setattr(operator_types, "_found", {})

    class Addition(ConcreteTemplate):  # type: ignore[misc]
        key = operator.add
        cases = (signature(types.int8, types.float64, types.float64),)

    class First(ConcreteTemplate):  # type: ignore[misc]
        key = operator.add
        cases = (signature(types.float64, types.float64, types.float64),)

    with operator_types.remembered_operator_types():
        before, after = types.Function((First,)), types.Function((Addition, First))
        for function, expected in ((before, types.float64), (after, types.int8)):
            found = call_type(function, types.float64, types.float64)
            assert found.return_type == expected


def test_a_remembered_signature_has_its_implementation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba may delete the type of an operation, and make it again later."""
    monkeypatch.setattr(operator_types, "_found", {})

    class Addition(ConcreteTemplate):  # type: ignore[misc]
        key = operator.add
        cases = (signature(types.float64, types.float64, types.float64),)

    with operator_types.remembered_operator_types():
        deleted = types.Function((Addition,))
        assert call_type(deleted, types.float64, types.float64) is not None
        alive = weakref.ref(deleted)
        del deleted
        gc.collect()
        assert alive() is None
        function = types.Function((Addition,))
        found = call_type(function, types.float64, types.float64)
    assert len(operator_types._found) == 1
    assert function.get_impl_key(found) is operator.add


def test_numba_is_restored_afterwards() -> None:
    find = BaseFunction.get_call_type
    with operator_types.remembered_operator_types():
        assert BaseFunction.get_call_type is not find
    assert BaseFunction.get_call_type is find
    with pytest.raises(ZeroDivisionError), operator_types.remembered_operator_types():
        raise ZeroDivisionError
    assert BaseFunction.get_call_type is find
