"""What autodoc shows of docstrings and signatures."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.typing import stringify_annotation

import entice
from entice.policies import Policy
from entice.worlds.adversaries import Adversary
from entice.worlds.changing_arms import Arms
from entice.worlds.drifts import Drift

ALIASES = {"Arms": Arms, "Policy": Policy, "Drift": Drift, "Adversary": Adversary}
"""Unions that a signature shows by their name, since `Policy` alone has 16 classes."""

CONSTANTS = {
    "entice.PLAYERS_CHOICE": "entice.model.step",
    "entice.atlas.WORLDS": "entice.atlas.worlds",
    "entice.theory.BOUNDS": "entice.theory.bounds_table",
}
"""Modules with the docstrings of constants: autodoc looks in the module that exports them."""

LINKED = {
    name: f"{module.__name__}.{name}"
    for module in (entice.theory, entice.atlas, entice.estimate, entice)
    for name in module.__all__
    if name[0].isupper()
} | {"Comparison": "entice.study.results.comparison.Comparison"}
"""Names that become links where a docstring has them in backticks, or a function returns them: the
public ones, and a class that `Result.compare` returns. Names in lower case are left as they are:
most of them name a parameter."""

BEFORE_NAPOLEON, AFTER_NAPOLEON = 400, 600
_attributes: dict[str, list[str]] = {}


def _shorten(
    app: Sphinx, what: str, name: str, obj: object, options: Any,
    signature: str | None, returns: str | None,
) -> tuple[str | None, str | None]:  # fmt: skip
    return _replace(signature), LINKED.get(returns or "", _replace(returns))


def _replace(text: str | None) -> str | None:
    if text is not None:
        for name, alias in ALIASES.items():
            for mode in ("smart", "fully-qualified-except-typing"):
                text = text.replace(stringify_annotation(alias, mode), name)
    return text


def _end_sections(
    app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Put a heading before examples, which napoleon would take for parameters."""
    if what in ("attribute", "data", "property"):
        _attributes[name] = list(lines)
    sections = [n for n, line in enumerate(lines) if re.fullmatch(r"-{3,}", line)]
    examples = [n for n, line in enumerate(lines) if line.startswith(">>>")]
    if sections and examples and "Examples" not in lines:
        lines[examples[0] : examples[0]] = ["Examples", "--------"]


def _document_constant(
    app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Replace the docstring of a constant's type, such as int, by that of the constant."""
    if name in CONSTANTS:
        documented = ModuleAnalyzer.for_module(CONSTANTS[name]).find_attr_docs()
        lines[:] = documented["", name.rpartition(".")[2]]


def _remove_field_numbers(
    app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Remove the docstring that Python writes for fields of named tuples."""
    if lines and re.fullmatch(r"Alias for field number \d+", lines[0]):
        lines.clear()


def _link(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """Link public names in backticks, and pages that are named by their path."""
    for n, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            line = re.sub(r"(?<![`:\w])`(\w+)`(?![`\w])", _reference, line)
            lines[n] = re.sub(r"\bdocs/([\w/-]+)\.md\b", r":doc:`/\1`", line)


def _reference(found: re.Match[str]) -> str:
    target = LINKED.get(found[1])
    return f":py:obj:`{found[1]} <{target}>`" if target else found[0]


def _restore_attribute(
    app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Undo napoleon's change of attributes: it takes the text before a colon for a type."""
    if name in _attributes:
        lines[:] = _attributes.pop(name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to autodoc."""
    app.connect("autodoc-process-signature", _shorten)
    for change in (_document_constant, _remove_field_numbers, _link, _end_sections):
        app.connect("autodoc-process-docstring", change, priority=BEFORE_NAPOLEON)
    app.connect("autodoc-process-docstring", _restore_attribute, priority=AFTER_NAPOLEON)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
