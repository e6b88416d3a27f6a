"""Drifts: how payments change ratings. One file for each kind of drift function."""

from entice.worlds.drifts.carried import CarriedDrift
from entice.worlds.drifts.compression import CompressionDrift
from entice.worlds.drifts.custom import CustomDrift
from entice.worlds.drifts.drift import DriftKernel
from entice.worlds.drifts.linear import ArmDrift, FadingDrift, LinearDrift, NegativeDrift, NoDrift
from entice.worlds.drifts.random import RandomDrift
from entice.worlds.drifts.shapes import PowerDrift, SaturatingDrift, StepDrift

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
    "CarriedDrift",
    "CompressionDrift",
    "CustomDrift",
    "Drift",
    "DriftKernel",
    "FadingDrift",
    "LinearDrift",
    "NegativeDrift",
    "NoDrift",
    "PowerDrift",
    "RandomDrift",
    "SaturatingDrift",
    "StepDrift",
]
