"""Entice: pay people to explore, and don't be fooled by their gratitude.

Incentivized exploration under reward drift, after Liu, Wang, Shen, Liu and Chen (AAAI 2020).
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"


def _modules() -> dict[str, str | None]:
    """Return the module of each public name: None for a module."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module for node in imports for alias in node.names}


# Public names are declared once, in __init__.pyi, and each is imported on first use.
_MODULES = _modules()
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES[name]
    if module is None:
        return import_module(f"{__name__}.{name}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
