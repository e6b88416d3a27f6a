"""Policies × worlds: where each policy fails."""

from entice.atlas.atlas import Atlas, atlas
from entice.atlas.worlds import POLICIES, WORLDS, AtlasWorld

__all__ = ["POLICIES", "WORLDS", "Atlas", "AtlasWorld", "atlas"]
