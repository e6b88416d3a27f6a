"""Create the figures of docs/explanation/theorems.md: `make figures`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator, NullFormatter

import entice
from entice import theory
from entice.paper.setups import MEANS
from entice.study.results.plots import COLOURS, MUTED, draw_curve, figure_style, legend_above
from entice.theory.figures import draw_bounds
from entice.theory.growth import paper_study
from entice.theory.inputs import Floats
from entice.theory.setting import Setting

HERE = Path(__file__).parent
ROUNDS = [int(t) for t in np.unique(np.geomspace(100, 100_000, 120).round())]


def bounded(
    policy: entice.UCB | entice.EpsilonGreedy, arms: entice.Bernoulli, replications: int = 400
) -> Figure:
    """Plot bounds and runs of a policy that meets a theorem's assumptions."""
    result = entice.simulate(
        arms=arms,
        policies=[policy],
        drifts=[entice.NoDrift(), entice.LinearDrift(0.5)],
        horizon=ROUNDS[-1],
        checkpoints=ROUNDS,
        feedback_range=(0, 1),
        replications=replications,
        seed=7,
    )
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey="row")
    labels = {"NoDrift": "no drift", "LinearDrift(0.5)": "linear drift, l = 0.5"}
    for row, metric in zip(axes, ("regret", "compensation"), strict=True):
        for ax, (_, d, _, drift) in zip(row, result.study.cells(), strict=True):
            curve = result.curves.filter(drift_index=d, metric=metric)
            draw_curve(ax, curve, f"{policy.label}, runs", COLOURS[0])
            draw_bounds(ax, Setting(result.study, policy, drift), metric, COLOURS[1], ROUNDS[0])
            ax.set_title(f"{metric.capitalize()}, {labels[drift.label]}")
            _logarithmic(ax)
            ax.margins(x=0)
            ax.xaxis.set_major_formatter(FuncFormatter(_power))
    for ax in axes[-1]:
        ax.set_xlabel("Round t")
    legend_above(figure, list(axes.flat), panels=1)
    return figure


def theorem3(horizon: int = 10**7, replications: int = 200) -> Figure:
    """Plot Theorem 3 and simulated runs."""
    study = paper_study(horizon=horizon, replications=replications, seed=7)
    T = np.geomspace(1e3, 1e13, 300)
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    ax = figure.subplots()
    bound = theory.theorem3.regret.as_stated(T, means=MEANS, displayed_gap=0.1)
    label = "Theorem 3, at least (Δ̲ = Δ, no drift)"
    ax.plot(T, bound, color=COLOURS[1], linestyle="--", label=label)
    ax.plot(T, 0.8 * T, color=MUTED, label="largest possible regret, 0.8 T")
    result = entice.simulate(
        arms=study.arms, policies=[entice.ThompsonSampling()], horizon=horizon,
        replications=replications, seed=7,
        checkpoints=[int(t) for t in np.unique(np.geomspace(1e3, horizon, 60).round())],
    )  # fmt: skip
    draw_curve(ax, result.curves.filter(metric="regret"), "Thompson sampling, runs", COLOURS[0])
    meets = float(T[np.argmax(bound < 0.8 * T)])
    ax.axvspan(T[0], meets, color="#f3f4f6", zorder=0)
    ax.text(meets / 1.3, 3e12, "vacuous here", ha="right", va="top", color="#374151")
    _logarithmic(ax)
    ax.margins(x=0)
    ax.yaxis.set_major_formatter(FuncFormatter(_power))
    ax.xaxis.set_major_formatter(FuncFormatter(_power))
    ax.set_xlabel("Rounds T")
    ax.set_ylabel("Regret")
    figure.legend(loc="outside upper left", ncols=3)
    return figure


def theorem_e2(replications: int = 400, horizon: int = 20_000) -> Figure:
    """Plot Theorem E2 and runs of equal-pay elimination and UCB, with and without drift."""
    policy = entice.EqualPayElimination(horizon=horizon, rho=1.5)
    result = entice.simulate(
        arms=entice.Gaussian(MEANS), policies=[policy, entice.UCB()],
        drifts=[entice.NoDrift(), entice.LinearDrift(5)], horizon=horizon,
        replications=replications, seed=7,
    )  # fmt: skip
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    axes = figure.subplots(1, 2)
    # The runs of elimination are the same under both drifts: one line.
    lines = {(0, 0): "elimination, l = 0 and l = 5", (1, 0): "UCB, l = 0", (1, 1): "UCB, l = 5"}
    for ax, metric in zip(axes, ("regret", "compensation"), strict=True):
        for colour, ((p, d), label) in zip(COLOURS, lines.items(), strict=False):
            curve = result.curves.filter(policy_index=p, drift_index=d, metric=metric)
            draw_curve(ax, curve, label, colour)
        bound = getattr(theory.equal_pay, metric).as_stated(horizon, means=MEANS, rho=1.5)
        ax.axhline(bound, color=MUTED, linestyle="--", label="Theorem E2, for every drift")
        ax.set_title(metric.capitalize())
        ax.set_xlabel("Round t")
        ax.set_ylim(bottom=0)
        ax.margins(x=0)
        ax.xaxis.set_major_locator(MultipleLocator(horizon // 4))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    legend_above(figure, list(axes), panels=1)
    return figure


def steady_state(longest: int = 10**7, replications: int = 200) -> Figure:
    """Plot displayed gaps, the ratio of regret and compensation, and predictions."""
    figure = Figure(figsize=(12, 4.0), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _displayed_gaps(left, replications // 2)
    _ratios(middle, longest // 10, replications)
    _predictions(right, longest, replications)
    return figure


def _displayed_gaps(ax: Axes, replications: int) -> None:
    for colour, l in zip(COLOURS, (0.0, 1.1, 3.0), strict=False):
        runs = [_gap_of_second_arm(l, replication) for replication in range(replications)]
        shortest = min(map(len, runs))
        n = np.arange(1, shortest + 1)
        mean = np.mean([run[:shortest] for run in runs], axis=0)
        ax.plot(n, mean, color=colour, label=f"l = {l:g}")
        ax.axhline(0.4 / (1 + l), color=colour, linestyle="--", linewidth=1)
    ax.set_xscale("log")
    ax.set_xlabel("Ratings of the worse arm")
    ax.set_title(f"Displayed gap, mean of {replications} UCB runs")
    ax.set_ylim(bottom=0)
    ax.legend(title="dashed: Δ/(1+l), Δ = 0.4")


def _gap_of_second_arm(l: float, replication: int) -> Floats:
    """Return the displayed gap before each paid pull of the worse of two arms."""
    rounds = entice.trace(
        arms=entice.Gaussian([0.9, 0.5], std=0.5), policies=[entice.UCB()],
        drifts=[entice.LinearDrift(l)], horizon=20_000, seed=7, replication=replication,
    )  # fmt: skip
    worse = rounds.filter(arm=1)
    return worse.filter(worse["greedy_arm"] == 0)["payment"].to_numpy()


def _ratios(ax: Axes, horizon: int, replications: int) -> None:
    ls = (0.0, 0.4, 0.7, 1.1, 1.5, 2.0)
    result = entice.simulate(
        arms=entice.Gaussian(MEANS), policies=[entice.UCB(), entice.ThompsonSampling()],
        drifts=[entice.LinearDrift(l) for l in ls], horizon=horizon, replications=replications,
        seed=7, checkpoints=1,
    )  # fmt: skip
    for p, policy in enumerate(result.study.policies):
        cells = [result.final.filter(policy_index=p, drift_index=d) for d in range(len(ls))]
        ratios = [np.median(c["regret"]) / np.median(c["compensation"]) for c in cells]
        ax.plot(ls, ratios, "o", color=COLOURS[p], label=policy.label)
    ax.plot(ls, 1 + np.array(ls), "--", color=MUTED, label="1 + l")
    ax.set_xlabel("Drift coefficient l")
    ax.set_title(f"Regret / compensation, T = {horizon:,}")
    ax.legend()


def _predictions(ax: Axes, longest: int, replications: int) -> None:
    horizons = [10**k for k in range(3, 8) if 10**k <= longest]
    for colour, l in zip(COLOURS, (0.0, 1.1), strict=False):
        for T in horizons:
            found = entice.simulate(
                arms=entice.Gaussian(MEANS), policies=[entice.UCB()],
                drifts=[entice.LinearDrift(l)], horizon=T, replications=replications, seed=7,
                checkpoints=1,
            ).summary()  # fmt: skip
            for metric, marker in (("regret", "o"), ("compensation", "^")):
                ax.plot(T, found.filter(metric=metric)["mean"][0], marker, color=colour)
        grid = np.geomspace(horizons[0], horizons[-1], 100)
        expected = theory.steady_state.ucb(grid, means=MEANS, l=l)
        ax.plot(grid, expected.regret, color=colour, label=f"regret, l = {l:g}")
        if l > 0:
            ax.plot(
                grid, expected.compensation, "--", color=colour, label=f"compensation, l = {l:g}"
            )
    ax.set_xscale("log")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    ax.set_ylim(bottom=0)
    ax.set_xlabel("Rounds T")
    ax.set_title("UCB, predicted (lines) and simulated")
    ax.legend()


def _logarithmic(ax: Axes) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axis.set_minor_formatter(NullFormatter())


def _power(value: float, _: int) -> str:
    return f"$10^{{{round(np.log10(value))}}}$"


def main() -> None:
    """Create all figures."""
    with figure_style():
        figures = {
            "theorem1": bounded(entice.UCB(), entice.Bernoulli([0.9, 0.6, 0.5])),
            "theorem2": bounded(entice.EpsilonGreedy(c=90), entice.Bernoulli([0.9, 0.5])),
            "theorem3": theorem3(),
            "theorem_e2": theorem_e2(),
            "steady_state": steady_state(),
        }
        for name, figure in figures.items():
            figure.savefig(HERE / f"{name}.png")


if __name__ == "__main__":
    main()
