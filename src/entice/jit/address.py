"""Compiled functions that compiled code calls by their address, so that it is compiled only once.

An address is valid in one process only. It is always an argument, never a constant, so that machine
code that takes it can be cached.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typeconv import Conversion
from numba.extending import intrinsic

from entice.jit.decorators import compiled_internal
from entice.jit.specialize import function_address, get_compiled

Floats = npt.NDArray[np.float64]
Unpack = Callable[[Floats], tuple[Any, ...]]

IN_PLACE = 0
"""The address that stands for the most common function of its kind, which callers run in place."""


class AddressedFunction:
    """A kind of function: what it returns and takes, and how it is called by its address."""

    def __init__(self, adapter: Callable[..., Any], result: Any, *example: Any) -> None:
        """Define a kind of function.

        `adapter(function, unpack, *arguments)` calls a function with its parameters unpacked, and
        returns a value of the Numba type `result`. `example` has arguments of the right types.
        """
        self._adapter, self._example = adapter, example
        self.call = _caller(result, tuple(map(numba.typeof, example)))
        """`call(address, arguments)`, for compiled code. An error in the function is raised."""

    def address(self, function: Callable[..., Any], unpack: Callable[..., Any]) -> int:
        """Return the address of a function of this kind; compile it if necessary."""
        return function_address(get_compiled(self._adapter, (function, unpack), self._example))


def pack_params(params: tuple[Any, ...]) -> tuple[Floats, Unpack]:
    """Return a function's parameters as one array, and a compiled function from it to the tuple.

    Parameters are numbers, or one or two arrays of equal length. Whole numbers must be below 2⁵³.
    """
    if params and isinstance(params[0], np.ndarray):
        return np.concatenate(params), (_unpack_one, _unpack_two)[len(params) - 1]
    kinds = tuple(map(numba.typeof, params))
    return np.array(params, dtype=np.float64), _unpack_numbers(kinds)


@compiled_internal
def _unpack_one(params: Floats) -> tuple[Floats]:
    return (params,)


@compiled_internal
def _unpack_two(params: Floats) -> tuple[Floats, Floats]:
    half = params.shape[0] // 2
    return params[:half], params[half:]


@functools.cache
def _unpack_numbers(kinds: tuple[Any, ...]) -> Unpack:
    @intrinsic  # type: ignore[untyped-decorator]
    def read(typing: Any, params: Any) -> Any:
        """Return the numbers of an array in a tuple: indexing would not know its length."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(params)(context, builder, arguments[0]).data
            values = [
                context.cast(
                    builder, builder.load(cgutils.gep(builder, data, i)), types.float64, kind
                )
                for i, kind in enumerate(kinds)
            ]
            return context.make_tuple(builder, signature.return_type, values)

        return types.BaseTuple.from_types(kinds)(params), generate

    @compiled_internal
    def unpack(params: Floats) -> tuple[Any, ...]:
        result: tuple[Any, ...] = read(params)
        return result

    return unpack


@intrinsic  # type: ignore[untyped-decorator]
def whole_number(typing: Any, value: Any) -> Any:
    """Convert a whole number of any size to 64 bits; other types are errors, unlike with `int`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.cast(builder, arguments[0], value, types.int64)

    return (types.int64(value), generate) if isinstance(value, types.Integer) else None


def _caller(result: Any, kinds: tuple[Any, ...]) -> Callable[[int, tuple[Any, ...]], Any]:
    @intrinsic  # type: ignore[untyped-decorator]
    def call(typing: Any, address: Any, arguments: Any) -> Any:
        """Call compiled code at an address. Numba's own function pointers are slower to pass."""
        for given, wanted in zip(arguments, kinds, strict=True):
            conversion = typing.can_convert(given, wanted)
            if conversion is None or conversion > Conversion.safe:
                raise TypingError(f"called with {given} instead of {wanted}")

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            convention = context.call_conv
            function_type = convention.get_function_type(result, kinds)
            function = builder.inttoptr(values[0], function_type.as_pointer())
            converted = [
                context.cast(builder, value, given, wanted)
                for value, given, wanted in zip(
                    cgutils.unpack_tuple(builder, values[1]), arguments, kinds, strict=True
                )
            ]
            status, returned = convention.call_function(builder, function, result, kinds, converted)
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return returned

        return result(types.int64, arguments), generate

    return call  # type: ignore[no-any-return]
