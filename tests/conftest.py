"""Compiled kernels of the tests are kept beside pytest's own cache, apart from the user's."""

import os
from pathlib import Path

os.environ.setdefault(
    "ENTICE_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "kernels")
)
