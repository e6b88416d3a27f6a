"""What autodoc shows of docstrings and signatures."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

from entice.policies import Policy
from entice.worlds.adversaries import Adversary
from entice.worlds.changing_arms import Arms
from entice.worlds.drifts import Drift

ALIASES = {"Arms": Arms, "Policy": Policy, "Drift": Drift, "Adversary": Adversary}
"""Unions that a signature shows by their name, since `Policy` alone has 16 classes."""

BEFORE_NAPOLEON, AFTER_NAPOLEON = 400, 600
_attributes: dict[str, list[str]] = {}


def _shorten(
    app: Sphinx, what: str, name: str, obj: object, options: Any,
    signature: str | None, returns: str | None,
) -> tuple[str | None, str | None]:  # fmt: skip
    return _replace(signature), _replace(returns)


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


def _restore_attribute(
    app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    """Undo napoleon's change of attributes: it takes the text before a colon for a type."""
    if name in _attributes:
        lines[:] = _attributes.pop(name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to autodoc."""
    app.connect("autodoc-process-signature", _shorten)
    app.connect("autodoc-process-docstring", _end_sections, priority=BEFORE_NAPOLEON)
    app.connect("autodoc-process-docstring", _restore_attribute, priority=AFTER_NAPOLEON)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
