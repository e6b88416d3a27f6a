"""Size of the installation with each extra: packages besides Entice, and megabytes.

Installs into temporary folders, with the newest versions and byte code, as `pip install` does. uv
does so faster.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = ("", "client", "plot", "service", "studio", "all")
INSTALL = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--compile-bytecode")


def measure(extra: str) -> tuple[int, float]:
    """Install with an extra; return the number of packages besides Entice, and megabytes."""
    what = f"{ROOT}[{extra}]" if extra else str(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*INSTALL, "--target", folder, what], check=True)
        size = sum(path.lstat().st_size for path in Path(folder).rglob("*"))
        return sum(1 for _ in distributions(path=[folder])) - 1, size / 1e6


def main() -> None:
    print(f"{'':20s} packages    MB")
    for extra in EXTRAS:
        packages, megabytes = measure(extra)
        name = f"entice[{extra}]" if extra else "entice"
        print(f"{name:20s} {packages:8d} {megabytes:5.0f}", flush=True)


if __name__ == "__main__":
    main()
