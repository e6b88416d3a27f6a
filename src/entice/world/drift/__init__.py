"""Drifts: one file for each kind."""

from entice.world.drift.carried import CarriedDrift
from entice.world.drift.compression import CompressionDrift
from entice.world.drift.custom import CustomDrift
from entice.world.drift.drift import Bend
from entice.world.drift.linear import ArmDrift, FadingDrift, LinearDrift, NegativeDrift, NoDrift
from entice.world.drift.random import RandomDrift
from entice.world.drift.shapes import PowerDrift, SaturatingDrift, StepDrift

Drift = (
    NoDrift
    | LinearDrift
    | SaturatingDrift
    | StepDrift
    | PowerDrift
    | NegativeDrift
    | RandomDrift
    | ArmDrift
    | FadingDrift
    | CarriedDrift
    | CompressionDrift
    | CustomDrift
)

__all__ = [
    "ArmDrift",
    "Bend",
    "CarriedDrift",
    "CompressionDrift",
    "CustomDrift",
    "Drift",
    "FadingDrift",
    "LinearDrift",
    "NegativeDrift",
    "NoDrift",
    "PowerDrift",
    "RandomDrift",
    "SaturatingDrift",
    "StepDrift",
]
