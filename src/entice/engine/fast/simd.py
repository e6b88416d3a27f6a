"""SIMD intrinsics that compare 32 or 16 averages or upper confidence bounds at once.

Numba compiles a search for the highest value to a chain of scalar comparisons: without `fastmath`,
LLVM may not reorder them. These intrinsics write the reduction in vectors of eight, which LLVM maps
to the vector registers of the processor. They take arrays without counting references.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WIDTH = 32
"""The number of bounds that one call compares."""
HALF_WIDTH = WIDTH // 2
"""The number of bounds that `leader_and_rivals_of_half` compares."""

_VECTOR_LENGTH = 8
_DOUBLE, _INT = ir.DoubleType(), ir.IntType(64)
_VECTOR = ir.VectorType(_DOUBLE, _VECTOR_LENGTH)


@intrinsic  # type: ignore[untyped-decorator]
def top_two_values(typing: Any, values: Any, start: Any) -> Any:
    """Return (position, value, second value) of values[i], for start ≤ i < start + WIDTH.

    These are the position of the highest value, that value, and the second-highest value. Ties go
    to the lowest position. Unused entries hold −inf.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _load(context, builder, signature.args[0], *arguments)
        top, second = _highest_two(builder, rows)
        position = builder.add(arguments[1], _first_equal(builder, rows, top))
        return context.make_tuple(builder, signature.return_type, (position, top, second))

    result = types.Tuple((types.int64, types.float64, types.float64))
    return result(values, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def top_two(typing: Any, levels: Any, slopes: Any, start: Any, at: Any) -> Any:
    """Return (position, value, second value, highest slope) of levels[i] + at · slopes[i].

    These are the position of the highest value, that value, the second-highest value, and the
    highest of the slopes, for start ≤ i < start + WIDTH. Ties go to the lowest position. Unused
    entries hold the level −inf and the slope 0.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        level, slope = _rows(context, builder, signature, arguments)
        bounds = _bounds(builder, level, slope, arguments[3])
        top, second = _highest_two(builder, bounds)
        position = builder.add(arguments[2], _first_equal(builder, bounds, top))
        outcome = (position, top, second, _highest(builder, slope))
        return context.make_tuple(builder, signature.return_type, outcome)

    result = types.Tuple((types.int64, types.float64, types.float64, types.float64))
    return result(levels, slopes, types.int64, types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def rivals(
    typing: Any, levels: Any, slopes: Any, start: Any, skipped: Any, at: Any, later: Any
) -> Any:
    """Return the highest value at `at` and at `later` over all positions other than `skipped`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        level, slope = _rows(context, builder, signature, arguments)
        level = _without(builder, level, builder.sub(arguments[3], arguments[2]))
        bounds = [_bounds(builder, level, slope, at) for at in arguments[4:]]
        outcome = [_highest(builder, each) for each in bounds]
        return context.make_tuple(builder, signature.return_type, outcome)

    result = types.Tuple((types.float64, types.float64))
    taken = (levels, slopes, types.int64, types.int64, types.float64, types.float64)
    return result(*taken), generate


def _leader_and_rivals(width: int) -> Any:
    """Return the intrinsic for the first `width` positions."""

    @intrinsic  # type: ignore[untyped-decorator]
    def leader_and_rivals(typing: Any, levels: Any, slopes: Any, at: Any, later: Any) -> Any:
        """Return the position of the highest value at `at`, and `rivals` for the others.

        There is no branch.
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            level, slope = _rows(context, builder, signature, [*arguments[:2], _INT(0)], width)
            bounds = [_bounds(builder, level, slope, at) for at in arguments[2:]]
            position = _first_equal(builder, bounds[0], _highest(builder, bounds[0]))
            others = [_highest(builder, _without(builder, each, position)) for each in bounds]
            return context.make_tuple(builder, signature.return_type, [position, *others])

        result = types.Tuple((types.int64, types.float64, types.float64))
        return result(levels, slopes, types.float64, types.float64), generate

    return leader_and_rivals


leader_and_rivals = _leader_and_rivals(WIDTH)
leader_and_rivals_of_half = _leader_and_rivals(HALF_WIDTH)


def _rows(context: Any, builder: Any, signature: Any, arguments: Any, width: int = WIDTH) -> Any:
    """Load `width` levels and slopes, in vectors."""
    return [
        _load(context, builder, kind, array, arguments[2], width)
        for kind, array in zip(signature.args[:2], arguments[:2], strict=True)
    ]


def _load(context: Any, builder: Any, kind: Any, array: Any, start: Any, width: int = WIDTH) -> Any:
    """Load `width` numbers of an array, in vectors."""
    first = builder.gep(context.make_array(kind)(context, builder, array).data, [start])
    rows = []
    for row in range(width // _VECTOR_LENGTH):
        position = builder.gep(first, [_INT(row * _VECTOR_LENGTH)])
        address = builder.bitcast(position, _VECTOR.as_pointer())
        rows.append(builder.load(address, align=8))
    return rows


def _spread(builder: Any, scalar: Any, kind: Any) -> Any:
    """Repeat a scalar in all lanes."""
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), _VECTOR_LENGTH), [0] * _VECTOR_LENGTH)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


def _bounds(builder: Any, levels: Any, slopes: Any, at: Any) -> Any:
    spread = _spread(builder, at, _VECTOR)
    return [builder.fadd(m, builder.fmul(spread, r)) for m, r in zip(levels, slopes, strict=True)]


def _higher(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _lower(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), b, a)


def _halves(builder: Any, vector: Any) -> list[Any]:
    half = vector.type.count // 2
    kind = ir.VectorType(ir.IntType(32), half)
    nothing = ir.Constant(vector.type, ir.Undefined)
    masks = [range(half), range(half, 2 * half)]
    return [builder.shuffle_vector(vector, nothing, ir.Constant(kind, list(m))) for m in masks]


def _only(builder: Any, vector: Any) -> Any:
    return builder.extract_element(vector, ir.IntType(32)(0))


def _highest(builder: Any, rows: Any) -> Any:
    """Reduce rows to their highest value: rows pairwise, then halves of the one that is left."""
    while len(rows) > 1:
        rows = [_higher(builder, a, b) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    vector = rows[0]
    while vector.type.count > 1:
        vector = _higher(builder, *_halves(builder, vector))
    return _only(builder, vector)


def _highest_two(builder: Any, rows: Any) -> Any:
    """Reduce rows to their highest and second-highest value, which are equal in a tie."""

    def merge(a: Any, b: Any) -> Any:
        others = _higher(builder, a[1], b[1])
        return _higher(builder, a[0], b[0]), _higher(builder, _lower(builder, a[0], b[0]), others)

    pairs = [
        (_higher(builder, a, b), _lower(builder, a, b))
        for a, b in zip(rows[::2], rows[1::2], strict=True)
    ]
    while len(pairs) > 1:
        pairs = [merge(a, b) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
    top, second = pairs[0]
    while top.type.count > 1:
        top_arms, seconds = _halves(builder, top), _halves(builder, second)
        top, second = merge((top_arms[0], seconds[0]), (top_arms[1], seconds[1]))
    return _only(builder, top), _only(builder, second)


def _first_equal(builder: Any, rows: Any, value: Any) -> Any:
    """Return the lowest position with this value."""
    spread = _spread(builder, value, _VECTOR)
    found = _INT(0)
    for row, values in enumerate(rows):
        bits = builder.bitcast(
            builder.fcmp_ordered("==", values, spread), ir.IntType(_VECTOR_LENGTH)
        )
        bits = builder.shl(builder.zext(bits, _INT), _INT(row * _VECTOR_LENGTH))
        found = builder.or_(found, bits)
    # If overflow turned the bounds into NaN, none is equal: stay within the arrays.
    none = builder.icmp_unsigned("==", found, _INT(0))
    return builder.select(none, _INT(0), builder.cttz(found, cgutils.false_bit))


def _without(builder: Any, rows: Any, skip: Any) -> Any:
    """Put −inf at position `skip`, counted from the first row."""
    kind = ir.VectorType(_INT, _VECTOR_LENGTH)
    spread = _spread(builder, skip, kind)
    nothing = ir.Constant(_VECTOR, [float("-inf")] * _VECTOR_LENGTH)
    kept = []
    for row, values in enumerate(rows):
        positions = ir.Constant(kind, list(range(row * _VECTOR_LENGTH, (row + 1) * _VECTOR_LENGTH)))
        kept.append(builder.select(builder.icmp_signed("==", positions, spread), nothing, values))
    return kept
