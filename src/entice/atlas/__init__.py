"""Policies × worlds: where each policy fails."""

from entice.atlas.atlas import Atlas, atlas
from entice.atlas.worlds import WORLDS, AtlasWorld, default_policies

__all__ = ["WORLDS", "Atlas", "AtlasWorld", "atlas", "default_policies"]
