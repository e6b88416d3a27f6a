"""No figure draws data outside its axes."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from figure_limits import drawn_outside
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from paper_fixtures import full_reproduction
from plain_kernel import plain_kernel
from plan_fixtures import forecast_of_ten, outcome

import entice
from entice import theory
from entice.atlas import atlas
from entice.atlas.worlds import WORLDS
from entice.engine.kernel import METRICS
from entice.paper import figures as paper_figures
from entice.paper.reproduce import COUNTED
from entice.study.results import plots
from entice.study.results.plots import BANDS, STOPPED, figure_style
from entice.theory import plot_bounds
from entice.theory.figures import ZERO
from entice.theory.growth import paper_study

ROOT = Path(__file__).parents[2]
MEANS = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]


@pytest.fixture(autouse=True)
def _style() -> Iterator[None]:
    with figure_style():
        yield


# The figures


@cache
def readme() -> entice.Result:
    """Run the example of the README, with an additional drift that lowers ratings."""
    return entice.simulate(
        arms=entice.Gaussian(MEANS),
        policies=[entice.UCB(), entice.EpsilonGreedy(c=5), entice.ThompsonSampling()],
        drifts=[entice.LinearDrift(0.0), entice.LinearDrift(1.1), entice.NegativeDrift(0.5)],
        horizon=20_000, replications=200, seed=7, progress=False,
    )  # fmt: skip


@cache
def bounded(horizon: int = 20_000, **settings: Any) -> entice.Result:
    return entice.simulate(
        arms=entice.Bernoulli([0.9, 0.6, 0.5]), policies=[entice.UCB(), entice.ThompsonSampling()],
        drifts=[entice.LinearDrift(0.0), entice.LinearDrift(0.5)],
        horizon=horizon, replications=20, seed=7, progress=False, **settings,
    )  # fmt: skip


Draw = Callable[[pytest.TempPathFactory], Figure]


def of_paper(name: str) -> Draw:
    def draw(factory: pytest.TempPathFactory) -> Figure:
        found, _ = full_reproduction(factory)
        written = next(result for setups, result in found.results if setups[0].name == "written")
        if name == "explained":
            return paper_figures.explained(pl.concat([found.table1, found.table2]), COUNTED)
        if name == "lock_in":
            return paper_figures.lock_in(found.results)
        return paper_figures.over_time(written, {"fig2": 0, "fig3": 6}[name])

    return draw


def of_docs(name: str, *arguments: Any) -> Draw:
    def draw(_: object) -> Figure:
        module = _script("docs", "theory_figures")
        drawn: Figure = getattr(module, name)(*arguments)
        return drawn

    return draw


def theorem_e2(factory: pytest.TempPathFactory) -> Figure:
    with plain_kernel():
        return of_docs("theorem_e2", 2, 1_000)(factory)


def scaling(_: object) -> Figure:
    """Draw plausible costs, with two threads that are slower than one."""
    module = _script("bench", "scaling")
    costs = [(9, 5.0), (100, 40.0), (10_000, 900.0)]
    by_size = {
        (name, label): costs for name in module.POLICIES for label in module.ENGINES.values()
    }
    threads = {(name, "fast path"): [(1, 1.0), (2, 0.6), (3, 3.4)] for name in module.POLICIES}
    drawn: Figure = module.draw(by_size, by_size, threads)
    return drawn


def _script(folder: str, name: str) -> Any:
    sys.path.insert(0, str(ROOT / folder))
    try:
        return __import__(name)
    finally:
        sys.path.remove(str(ROOT / folder))


def growth(_: object) -> Figure:
    return theory.growth(
        paper_study(horizon=10**4, replications=20, seed=7), progress=False
    ).plot()  # fmt: skip


def world_map(_: object) -> Figure:
    policies = [entice.UCB(), entice.ThompsonSampling()]
    return atlas(
        WORLDS[:3], policies, horizon=2_000, replications=10, seed=7, progress=False
    ).plot()  # fmt: skip


def plan(_: object) -> Figure:
    """Draw a plan with one policy so expensive that its mark lies beyond the axis."""
    return forecast_of_ten(
        lambda i: outcome(needed=9.0 + i, spend=9.0, needed_by_day=np.arange(5) * (2.0 + i)),
        lambda i: outcome(stars_lost=50.0 if i < 2 else 1.0),
        budget=5.0, currency="€",
    ).plot()  # fmt: skip


FIGURES: dict[str, Draw] = {
    **{f"Result.plot, {metric}": lambda _, m=metric: readme().plot(m) for metric in METRICS},
    "Result.plot, one checkpoint": lambda _: bounded(1_000, checkpoints=1).plot("compensation"),
    "theory.plot_bounds, regret": lambda _: plot_bounds(bounded(), "regret"),
    "theory.plot_bounds, compensation": lambda _: plot_bounds(bounded(), "compensation"),
    "theory.plot_bounds, without bounds": lambda _: plot_bounds(readme(), "total_drift"),
    **{f"paper, {name}": of_paper(name) for name in ("fig2", "fig3", "explained", "lock_in")},
    "Growth.plot": growth,
    "Atlas.plot": world_map,
    "Forecast.plot": plan,
    "docs, theorem 1": of_docs("bounded", entice.UCB(), entice.Bernoulli([0.9, 0.6, 0.5]), 10),
    "docs, theorem 2": of_docs(
        "bounded", entice.EpsilonGreedy(c=90), entice.Bernoulli([0.9, 0.5]), 10
    ),
    "docs, theorem 3": of_docs("theorem3", 10**4, 20),
    "docs, theorem E2": theorem_e2,
    "docs, steady_state": of_docs("steady_state", 10**4, 20),
    "bench, scaling": scaling,
}  # fmt: skip
"""All figures of the package."""

FIGURE_FUNCTIONS = {
    "plots.plot_curves", "figures.over_time", "figures.explained", "figures.lock_in",
    "bounds_table.plot_bounds", "figures.plot_growth", "figure.plot_atlas", "figure.plot_forecast",
    "theory_figures.bounded", "theory_figures.theorem3", "theory_figures.steady_state",
    "theory_figures.theorem_e2", "scaling.draw",
}  # fmt: skip
"""The functions that `FIGURES` calls, by itself or through `plot` methods."""


@pytest.mark.parametrize("name", FIGURES)
def test_all_data_lie_inside_the_axes(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    figure = FIGURES[name](tmp_path_factory)
    assert drawn_outside(figure) == []


def test_every_figure_function_is_tested() -> None:
    found = set()
    for path in (
        *ROOT.glob("src/entice/**/*.py"),
        *ROOT.glob("docs/*.py"),
        *ROOT.glob("bench/*.py"),
    ):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "Figure" in text else ():
            if isinstance(node, ast.FunctionDef) and node.name != "plot":
                drawn = node.returns is not None and ast.unparse(node.returns) == "Figure"
                found |= {f"{path.stem}.{node.name}"} if drawn else set()
    assert found == FIGURE_FUNCTIONS


# A former bug: limits of the first panel for all panels


def limits_of_the_first_panel(ax: Axes) -> None:
    """Label a panel as `label_rounds` once did, which fixed the limits at the first panel."""
    ax.set_xlabel("Round t")
    ax.margins(x=0)
    ax.set_ylim(bottom=0)


@pytest.mark.parametrize(
    ("metric", "cut_off"),
    [("compensation", "panel 1, Line2D 'UCB': y = 543."), ("total_drift", "panel 2, Line2D 'UCB'")],
)
def test_limits_copied_from_the_first_panel_are_detected(
    metric: str, cut_off: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "label_rounds", limits_of_the_first_panel)
    outside = drawn_outside(readme().plot(metric))
    assert any(line.startswith(cut_off) for line in outside)


def test_readme_shows_the_payments_of_its_example() -> None:
    figure = readme().plot("compensation")
    q95 = readme().curves.filter(drift_index=1, metric="compensation")["q95"].to_numpy().max()
    assert 639 < q95 < 640
    assert all(ax.get_ylim()[0] == 0 and ax.get_ylim()[1] > q95 for ax in figure.axes)


# Notes on data that a figure omits on purpose


def test_a_zero_on_a_logarithmic_axis_is_noted() -> None:
    result = bounded(2_000, checkpoints=(1, 5, 10, 50, 200, 2_000))
    figure = plot_bounds(result, "compensation")
    outside = drawn_outside(figure)
    assert outside
    assert all(line.endswith("y = 0 is not above zero, on a logarithmic axis") for line in outside)
    assert ZERO in figure.get_supxlabel().replace("\n", " ")
    assert ZERO not in plot_bounds(bounded(), "compensation").get_supxlabel()


def test_cells_with_stopped_runs_are_named() -> None:
    result = entice.simulate(
        arms=entice.Gaussian(MEANS), policies=[entice.UCB(), entice.EpsilonGreedy(c=5)],
        drifts=[entice.NoDrift(), entice.LinearDrift(10.0)], horizon=500, replications=20,
        seed=7, progress=False,
    )  # fmt: skip
    figure = result.plot("regret")
    assert drawn_outside(figure) == []
    note = " ".join(figure.get_supxlabel().split())
    assert note == f"{STOPPED} EpsilonGreedy(c=5) with LinearDrift(10)."
    assert readme().plot("regret").get_supxlabel() == ""


def test_a_zero_in_a_growth_figure_is_noted() -> None:
    study = entice.Study(
        arms=entice.Gaussian([0.9, 0.5]), policies=[entice.Greedy(), entice.UCB()],
        horizon=10**4, replications=50, seed=7,
    )  # fmt: skip
    figure = theory.growth(study, progress=False).plot()
    assert drawn_outside(figure) == []
    _, paid = figure.axes
    assert [text.get_text() for text in paid.texts] == ["down to zero, not shown:\nGreedy"]
    assert len(paid.lines) >= 1


def test_a_mark_beyond_the_axes_becomes_an_arrow() -> None:
    figure = plan(None)
    costs = figure.axes[0]
    (arrow,) = [text for text in costs.texts if text.get_text().startswith("→")]
    assert arrow.get_text() == "→ €100"
    assert 100 > costs.get_xlim()[1] > arrow.xy[0]  # type: ignore[attr-defined]


def test_the_legend_says_that_the_line_is_a_median(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    assert "median of the runs at each round" in BANDS
    for name in ("Result.plot, regret", "paper, fig3", "docs, theorem 1"):
        figure = FIGURES[name](tmp_path_factory)
        assert figure.legends[0].get_title().get_text() == BANDS


# The helper `drawn_outside`


def panel() -> tuple[Figure, Axes]:
    figure = Figure()
    ax = figure.subplots()
    ax.set(xlim=(0, 10), ylim=(0, 10))
    return figure, ax


OUTSIDE: dict[str, Callable[[Axes], Any]] = {
    "a line": lambda ax: ax.plot([1, 2], [5, 11]),
    "a line to the left": lambda ax: ax.plot([-1, 2], [5, 6]),
    "a band": lambda ax: ax.fill_between([1, 2], [1, 1], [5, 11]),
    "points": lambda ax: ax.scatter([1, 2], [5, 11]),
    "error bars": lambda ax: ax.errorbar([1, 2], [5, 8], yerr=[1, 3]),
    "bars": lambda ax: ax.bar([1, 2], [5, 11]),
    "horizontal bars": lambda ax: ax.barh([1, 2], [5, 4], left=[0, 7]),
    "a text": lambda ax: ax.text(11, 5, "here"),
    "an annotation": lambda ax: ax.annotate("here", (5, 11), xytext=(5, 5)),
    "an image": lambda ax: ax.imshow(np.ones((2, 2)), extent=(0, 10, 0, 11), aspect="auto"),
    "a horizontal line": lambda ax: ax.axhline(11),
    "a span": lambda ax: ax.axvspan(5, 11),
}


@pytest.mark.parametrize("kind", OUTSIDE)
def test_data_outside_the_axes_is_detected(kind: str) -> None:
    figure, ax = panel()
    OUTSIDE[kind](ax)
    ax.set(xlim=(0, 10), ylim=(0, 10))
    assert drawn_outside(figure)
    ax.set(xlim=(-2, 20), ylim=(-2, 20))
    assert drawn_outside(figure) == []


def test_undrawn_data_does_not_count_as_outside() -> None:
    figure, ax = panel()
    ax.plot([1, 2, 3], [5, np.nan, np.inf])
    ax.plot([1], [11], visible=False)
    ax.axhline(5)
    ax.axvspan(2, 3)
    ax.text(0.5, 1.1, "above", transform=ax.transAxes)
    assert drawn_outside(figure) == []


def test_logarithmic_axes_are_measured_by_their_logarithms() -> None:
    figure, ax = panel()
    ax.plot([1, 10], [1e-4, 1e4])
    ax.set(yscale="log", ylim=(1e-4, 1e4))
    assert drawn_outside(figure) == []
    ax.set_ylim(1.1e-4, 1e4)  # off by less than a millionth of the larger end
    assert "y = 0.0001, but the axis shows 0.00011 to 10000" in drawn_outside(figure)[0]
    ax.plot([1, 10], [0, 1])
    assert "y = 0 is not above zero, on a logarithmic axis" in drawn_outside(figure)[1]


def test_texts_cut_off_at_the_edge_are_detected() -> None:
    figure, ax = panel()
    ax.set_title("A title that is far longer than its figure is wide. " * 2)
    assert len(drawn_outside(figure)) == 1
