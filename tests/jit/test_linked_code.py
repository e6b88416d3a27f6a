"""Functions that only compiled functions can call."""

from __future__ import annotations

import pytest

from entice.jit.decorators import compiled, compiled_internal


@compiled_internal
def increment(x: int) -> int:
    return x + 1


@compiled
def increment_twice(x: int) -> int:
    return increment(increment(x))


def test_python_cannot_call_an_internal_function_but_compiled_code_can() -> None:
    assert increment_twice(1) == 3
    with pytest.raises(TypeError, match=r"^increment can only be called from compiled code$"):
        increment(1)
