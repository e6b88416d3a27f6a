"""Conditions that are marked as likely."""

from __future__ import annotations

import numba

from entice.jit.likely import likely


@numba.njit  # type: ignore[untyped-decorator]
def sign(x: float) -> int:
    if likely(x > 0):
        return 1
    return -1


def test_a_mark_changes_no_result_in_compiled_code_or_in_python() -> None:
    for function in (sign, sign.py_func):
        assert (function(2.5), function(0.0), function(float("nan"))) == (1, -1, -1)


def test_the_compiler_is_told_which_branch_is_likely() -> None:
    sign(1.0)
    (code,) = sign.inspect_llvm().values()
    assert "llvm.expect.i1(i1" in code or "branch_weights" in code
