"""Entice: pay people to explore, and don't be fooled by their gratitude.

Incentivized exploration under reward drift, after Liu, Wang, Shen, Liu and Chen (AAAI 2020).
"""

import lazy_loader

__version__ = "0.1.0"

# Public names are declared once, in __init__.pyi, and each is imported on first use.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
