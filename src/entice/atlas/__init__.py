"""Policies × worlds: where each policy breaks."""

from entice.atlas.atlas import Atlas, atlas
from entice.atlas.worlds import POLICIES, WORLDS, AtlasWorld

__all__ = ["POLICIES", "WORLDS", "Atlas", "AtlasWorld", "atlas"]
