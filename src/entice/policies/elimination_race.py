"""A race of elimination layers, robust to corrupted feedback (Lykouris et al. 2018)."""

from __future__ import annotations

import math

from entice.checks import set_number, set_whole
from entice.errors import InputError
from entice.jit.decorators import compiled
from entice.policies.policy import Counts, Floats, PolicyKernel, PolicySpec
from entice.rng import Stream, uniform

NO_LAYER = -1.0
"""Stands for the layer of an arm that was selected on behalf of a layer without arms."""


class EliminationRace(PolicySpec, frozen=True, tag="elimination_race"):
    """Layers that each drop arms by their own ratings; the slower a layer, the harder to fool.

    The multi-layer active arm elimination race of Lykouris, Mirrokni and Paes Leme, "Stochastic
    Bandits Robust to Adversarial Corruptions" (STOC 2018). Each round belongs to a layer ℓ of
    1 … log₂ T, drawn with probability 2^−ℓ (what is left over goes to layer 1). It selects, of the
    layer's arms, the one that it has selected least. A layer drops arm a, for itself and for all
    layers below it, when another of its arms, a', is better beyond doubt:

        m(a') − m(a) > w(a) + w(a'),   w = sqrt(L/n) + L/n,   L = log(4KT log₂(T)/δ),

    n and m being counts and averages of the layer's own ratings. Corruption of C in total reaches
    layer ℓ with C/2^ℓ only, so layers from log₂ C on drop no good arm, and correct those below.
    When all of a layer's arms have been dropped from above, the lowest layer with arms decides:
    the authors take any of its arms, this policy the one with the best displayed average, for
    which least is to be paid. The rating of such a round counts for no layer.

    The guarantee is dear. L is 19 for 9 arms and T = 20,000, so arms are dropped late, if at all,
    and until then all are tried alike: on the paper's instance without drift the regret is 5,400
    where UCB has 380. It pays where few well-placed lies would fool UCB for good, as those about
    the best arm's first ratings do; against `StrategicArms` UCB has the smaller regret too. The
    guarantee is stated for rewards between 0 and 1, and takes drift for corruption.

    The rounds of ``cold_start="each_arm_once"`` belong to layer 1. A rating counts for the layer in
    which its arm was last selected. Where ratings come at once and offers are accepted, that is the
    layer of its round; else ratings of one arm may be counted for another layer than selected it,
    which mixes layers, and the protection of the slow ones weakens.

    Parameters
    ----------
    horizon
        T. It sets the number of layers and the widths; more rounds may be played, without the
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
        told = f"horizon={self.horizon}" + (f", delta={self.delta:g}" if self.delta != 0.05 else "")
        return f"EliminationRace({told})"

    @property
    def layers(self) -> int:
        """How many layers race: log₂ T, rounded down."""
        return max(1, self.horizon.bit_length() - 1)

    def kernel(self, arms: int) -> PolicyKernel:  # noqa: D102
        # For each arm: out of how many layers it is, counted from the lowest; and in which one it
        # was last selected. Then for each layer and arm: selections, ratings, their sum. Layers are
        # numbered from 0, which is the authors' 1.
        doubt = math.log(4 * arms * self.horizon * self.layers / self.delta)
        size = (2 + 3 * self.layers) * arms
        return PolicyKernel(select, update, (arms, self.layers, doubt), memory=size)


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
    asked = memory[first : first + arms]
    arm = -1
    for i in range(arms):
        if dropped[i] <= layer and (arm < 0 or asked[i] < asked[arm]):
            arm = i
    asked[arm] += 1.0
    layer_of[arm] = layer
    return arm


@compiled
def draw_layer(layers: int, rng: Stream) -> int:
    """Draw layer ℓ = 0, 1, … with probability 2^−(ℓ+1), and layer 0 with what is left over."""
    u = uniform(rng)
    layer, share = 0, 0.5
    while u < share:
        layer, share = layer + 1, 0.5 * share
        if layer == layers:
            return 0
    return layer


@compiled
def best_of_layer(layer: int, dropped: Floats, means: Floats) -> int:
    """Find the arm of a layer with the best displayed average."""
    best = -1
    for i in range(means.shape[0]):
        if dropped[i] <= layer and (best < 0 or means[i] > means[best]):
            best = i
    return best


@compiled
def update(
    memory: Floats, params: tuple[int, int, float], arm: int, payment: float, feedback: float
) -> None:
    """Count a rating for its layer, and drop the arms that it leaves beaten."""
    arms, _, doubt = params
    dropped, layer_of = memory[:arms], memory[arms : 2 * arms]
    if layer_of[arm] == NO_LAYER:
        return
    layer = int(layer_of[arm])
    first = (3 + 3 * layer) * arms
    rated, sums = memory[first : first + arms], memory[first + arms : first + 2 * arms]
    rated[arm] += 1.0
    sums[arm] += feedback
    drop_beaten(layer, rated, sums, dropped, doubt)


@compiled
def drop_beaten(layer: int, rated: Floats, sums: Floats, dropped: Floats, doubt: float) -> None:
    """Drop the arms of a layer whose highest plausible mean is below another's lowest one."""
    lowest = -math.inf
    for i in range(rated.shape[0]):
        if rated[i] > 0.0 and dropped[i] <= layer:
            lowest = max(lowest, sums[i] / rated[i] - width(rated[i], doubt))
    for i in range(rated.shape[0]):
        highest = sums[i] / rated[i] + width(rated[i], doubt)  # inf or nan without ratings
        if dropped[i] <= layer and highest < lowest:
            dropped[i] = layer + 1


@compiled
def width(n: float, doubt: float) -> float:
    """How far an average of n ratings may be off: by chance, and by corruption."""
    return math.sqrt(doubt / n) + doubt / n
