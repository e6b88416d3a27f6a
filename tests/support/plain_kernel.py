"""Studies, traces, live principals and plans in plain Python, without compilation.

A combination of policy, drift, arms and players takes seconds to compile. In plain Python it costs
some 40 µs a round. The source, the draws and the order of operations are the same, and so are the
numbers, bit for bit: `tests/engine/test_plain_kernel.py` compares them. Functions of the package
that take no functions stay compiled, each by itself, so that all combinations share them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from tracing import untraced

from entice.engine import kernel
from entice.jit.interpret import interpret, is_user_function, takes_functions
from entice.jit.specialize import get_compiled
from entice.planner import campaign_loop
from entice.policies.policy import PolicyKernel
from entice.worlds.delays import DelaySampler
from entice.worlds.players import AcceptanceKernel
from entice.worlds.response import ResponseKernel


@contextlib.contextmanager
def plain_kernel() -> Iterator[None]:
    """Run the generic kernel, principals and plans in plain Python; fast paths stay compiled."""
    with (
        mock.patch("entice.study.running.cell.get_compiled", _get_plain),
        mock.patch("entice.planner.runner.get_compiled", _get_plain),
        mock.patch("entice.planner.runner.policy_pointer", _policy_functions),
        mock.patch("entice.planner.runner.visitor_pointers", _visitor_functions),
        mock.patch("entice.live.specialize", _bind_plain),
    ):
        yield


def _get_plain(
    entry: Callable[..., Any], functions: tuple[Callable[..., Any], ...], arguments: tuple[Any, ...]
) -> Callable[..., Any]:
    if entry in (kernel.replicate, campaign_loop.simulate_visits):
        return _bind_plain(entry, *functions)
    return get_compiled(entry, functions, arguments)


def _policy_functions(rules: PolicyKernel) -> Any:
    return rules.functions, rules.params


def _visitor_functions(
    acceptance: AcceptanceKernel, delays: DelaySampler, response: ResponseKernel
) -> Any:
    functions = acceptance.accept, delays.draw, response.probability
    return functions, (acceptance.params, delays.params, response.params)


def _bind_plain(entry: Callable[..., Any], *functions: Callable[..., Any]) -> Callable[..., Any]:
    plain = [interpret(f) if is_user_function(f) or takes_functions(f) else f for f in functions]
    run = untraced(interpret(entry))  # the report of coverage excludes compiled functions
    return lambda *arguments: run(*plain, *arguments)
