"""A race of elimination layers, robust to corrupted feedback (Lykouris et al. 2018)."""

from __future__ import annotations

import math

from entice.checks import set_number, set_whole
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.rng import Stream, uniform

NO_LAYER = -1.0
"""Recorded instead of a layer for an arm that was selected because the drawn layer had no arms."""


class EliminationRace(PolicySpec, frozen=True, tag="elimination_race"):
    """Layers that eliminate arms by their own ratings; slower layers resist more corruption.

    The multi-layer active arm elimination race of Lykouris, Mirrokni and Paes Leme, "Stochastic
    Bandits Robust to Adversarial Corruptions" (STOC 2018). Each round belongs to a layer ℓ of
    1 … log₂ T, drawn with probability 2^−ℓ (the remaining probability goes to layer 1). The layer
    selects, among its arms, the one that it has selected least. A layer drops arm a, for itself and
    for all layers below it, when another of its arms, a', is significantly better:

        m(a') − m(a) > w(a) + w(a'),   w = sqrt(L/n) + L/n,   L = log(4KT log₂(T)/δ),

    where n and m are counts and averages of the layer's own ratings. Of a total corruption C, only
    C/2^ℓ reaches layer ℓ. So layers from log₂ C on drop no good arm, and correct the layers below.
    When all of a layer's arms have been dropped from above, the lowest layer with arms decides: the
    authors take any of its arms; this policy takes the one with the best displayed average, which
    requires the smallest payment. The rating of such a round counts for no layer.

    The guarantee has a high cost. L is 19 for 9 arms and T = 20,000, so arms are dropped late, if
    at all, and until then all are tried equally often: on the paper's instance without drift the
    regret is 5,400, compared with 380 for UCB. The policy is useful where a few false ratings would
    mislead UCB permanently, such as those of the best arm's first pulls; against `StrategicArms`,
    UCB still has the smaller regret. The guarantee is stated for rewards between 0 and 1, and
    treats drift as corruption.

    The rounds of ``cold_start="each_arm_once"`` belong to layer 1. A rating counts for the layer in
    which its arm was last selected. If ratings are immediate and offers are accepted, that is the
    layer of its round. Otherwise a rating may count for a layer that did not select the arm, which
    mixes layers and weakens the protection of the slow ones.

    Parameters
    ----------
    horizon
        T. It sets the number of layers and the widths. More rounds may be played, but without the
        guarantee.
    delta
        δ, the probability with which the guarantee may fail.

    >>> import entice
    >>> entice.EliminationRace(horizon=20_000).label
    'EliminationRace(horizon=20000)'
    """

    horizon: int
    delta: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        set_whole(self, "horizon", at_least=1)
        if not 0 < set_number(self, "delta") < 1:
            raise InputError("EliminationRace: delta", "must lie between 0 and 1", given=self.delta)

    @property
    def default_label(self) -> str:  # noqa: D102
        delta = f", delta={self.delta:g}" if self.delta != 0.05 else ""
        return f"EliminationRace(horizon={self.horizon}{delta})"

    @property
    def layers(self) -> int:
        """The number of layers: log₂ T, rounded down."""
        return max(1, self.horizon.bit_length() - 1)

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        # For each arm: the number of layers, from the lowest, that have dropped it, and the layer
        # in which it was last selected. Then for each layer and arm: selections, ratings, their
        # sum. Layers are numbered from 0, which is the authors' 1.
        log_term = math.log(4 * arms * self.horizon * self.layers / self.delta)
        size = (2 + 3 * self.layers) * arms
        return PolicyKernel(select, update, (arms, self.layers, log_term), memory=size)


@compiled
def select(
    t: int,
    pulls: Counts,
    means: Floats,
    memory: Floats,
    params: tuple[int, int, float],
    rng: Stream,
) -> int:
    """Draw a layer and let it choose among its arms."""
    arms, layers, _ = params
    dropped, layer_of = memory[:arms], memory[arms : 2 * arms]
    layer = draw_layer(layers, rng)
    lowest = layers
    for i in range(arms):
        lowest = min(lowest, int(dropped[i]))
    if layer < lowest:  # it has no arms left, and the layers below have none either
        arm = best_of_layer(lowest, dropped, means)
        layer_of[arm] = NO_LAYER
        return arm
    first = (2 + 3 * layer) * arms
    selections = memory[first : first + arms]
    arm = -1
    for i in range(arms):
        if dropped[i] <= layer and (arm < 0 or selections[i] < selections[arm]):
            arm = i
    selections[arm] += 1.0
    layer_of[arm] = layer
    return arm


@compiled
def draw_layer(layers: int, rng: Stream) -> int:
    """Draw layer ℓ = 0, 1, … with probability 2^−(ℓ+1); layer 0 gets the remaining probability."""
    u = uniform(rng)
    layer, share = 0, 0.5
    while u < share:
        layer, share = layer + 1, 0.5 * share
        if layer == layers:
            return 0
    return layer


@compiled
def best_of_layer(layer: int, dropped: Floats, means: Floats) -> int:
    """Return the arm of a layer with the best displayed average."""
    best = -1
    for i in range(means.shape[0]):
        if dropped[i] <= layer and (best < 0 or means[i] > means[best]):
            best = i
    return best


@compiled
def update(
    memory: Floats, params: tuple[int, int, float], arm: int, payment: float, feedback: float
) -> None:
    """Count a rating for its layer, and drop the arms that are now significantly worse."""
    arms, _, log_term = params
    dropped, layer_of = memory[:arms], memory[arms : 2 * arms]
    if layer_of[arm] == NO_LAYER:
        return
    layer = int(layer_of[arm])
    first = (3 + 3 * layer) * arms
    rated, sums = memory[first : first + arms], memory[first + arms : first + 2 * arms]
    rated[arm] += 1.0
    sums[arm] += feedback
    drop_worse_arms(layer, rated, sums, dropped, log_term)


@compiled
def drop_worse_arms(
    layer: int, rated: Floats, sums: Floats, dropped: Floats, log_term: float
) -> None:
    """Drop the arms of a layer whose highest plausible mean is below another's lowest one."""
    lowest = -math.inf
    for i in range(rated.shape[0]):
        if rated[i] > 0.0 and dropped[i] <= layer:
            lowest = max(lowest, sums[i] / rated[i] - width(rated[i], log_term))
    for i in range(rated.shape[0]):
        highest = sums[i] / rated[i] + width(rated[i], log_term)  # inf or nan without ratings
        if dropped[i] <= layer and highest < lowest:
            dropped[i] = layer + 1


@compiled
def width(n: float, log_term: float) -> float:
    """Return the width of the confidence interval of n ratings, for noise and for corruption."""
    return math.sqrt(log_term / n) + log_term / n
