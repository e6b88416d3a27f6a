"""Optional dependencies: the packages of each extra, and the error if one is not installed."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from entice.errors import EnticeError

Extra = Literal["plot", "plotly", "service", "postgres", "studio", "cluster"]

_SERVICE = {
    "granian": "granian",
    "litestar": "litestar",
    "prometheus_client": "prometheus-client",
    "structlog": "structlog",
}
PACKAGES: dict[Extra, dict[str, str]] = {
    "plot": {"matplotlib": "matplotlib"},
    "plotly": {"matplotlib": "matplotlib", "plotly": "plotly"},
    "service": _SERVICE,
    "postgres": {"psycopg": "psycopg[binary]"},
    "studio": {**_SERVICE, "plotly": "plotly"},
    "cluster": {"cloudpickle": "cloudpickle", "distributed": "distributed"},
}
"""The modules that each extra provides, and the package to install for each of them."""
_USERS: dict[Extra, str] = {
    "plot": "Figures require",
    "plotly": "Interactive figures require",
    "service": "The service requires",
    "postgres": "PostgreSQL databases require",
    "studio": "The studio requires",
    "cluster": "Dask clusters require",
}


class MissingExtra(EnticeError, ImportError):
    """Packages of an extra are not installed. The message has the command to run."""


def require(extra: Extra) -> None:
    """Raise `MissingExtra` if a package of an extra is not installed.

    Call this before any work starts, and import the packages after it.
    """
    message = missing_extra(extra)
    if message:
        raise MissingExtra(message)


def missing_extra(extra: Extra) -> str:
    """Return what requires an extra and the command to install it; empty if it is installed.

    The command names the packages: pip finds entice[extra] only where Entice has been released.
    """
    packages = [package for name, package in PACKAGES[extra].items() if find_spec(name) is None]
    if not packages:
        return ""
    names = " ".join(f'"{name}"' if "[" in name else name for name in packages)
    return f"{_USERS[extra]} the extra entice[{extra}]. Run: {_install_command()} {names}"


def _install_command() -> str:
    """Return the command that installs into this environment, which may not be activated."""
    python, pip = shlex.quote(sys.executable), shutil.which("pip")
    if pip is not None and Path(pip).parent == Path(sys.executable).parent:
        return "pip install"
    return f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
