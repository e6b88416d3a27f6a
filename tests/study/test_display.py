"""Results in notebooks and papers: HTML, LaTeX, Plotly, column width, the user's own axes."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from figure_limits import drawn_outside
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath
from plan_fixtures import forecast_of_ten, outcome
from rich.console import Console

import entice
from entice.planner.forecast import Forecast
from entice.study.results.display_table import DisplayTable, escape_latex
from entice.study.results.plots import BANDS, STOPPED, TITLES

COLUMN = 3.25 * 72.27
"""The width of a column in TeX's points."""


@cache
def result() -> entice.Result:
    return entice.simulate(
        arms=entice.Gaussian([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]),
        policies=[entice.UCB(), entice.EpsilonGreedy(c=5)],
        drifts=[entice.LinearDrift(0.0), entice.LinearDrift(1.1)],
        horizon=20_000, replications=20, seed=7, progress=False, checkpoints=20,
    )  # fmt: skip


# LaTeX


def cells(latex: str) -> list[list[str]]:
    """Return the cells of all rows of numbers."""
    body = latex[latex.index("\\midrule") : latex.index("\\bottomrule")]
    lines = [line.removesuffix(r" \\") for line in body.splitlines() if " & " in line]
    return [line.split(" & ") for line in lines]


def test_latex_has_a_row_for_each_cell() -> None:
    latex = result().to_latex()
    assert latex.count(r"\multicolumn{3}{@{}l}{") == 2
    rows = cells(latex)
    assert len(rows) == 2 * 4  # each cell has two lines
    assert all(len(row) == 3 for row in rows)
    summary = result().summary().filter(metric="regret", policy="UCB")
    mean = summary.filter(drift="LinearDrift(1.1)")["mean"].item()
    assert rows[2][1].startswith(f"{mean:,.0f}".replace(",", "{,}") + r" $\pm$ ")
    assert [rows[i][0] for i in range(4)] == ["LinearDrift(0)", "", "LinearDrift(1.1)", ""]


@pytest.mark.parametrize("kind", ["result", "comparison"])
def test_latex_is_balanced_and_escaped(kind: str) -> None:
    compared = result().compare("UCB", "EpsilonGreedy(c=5)")
    latex = result().to_latex() if kind == "result" else compared.to_latex()
    for environment in ("table", r"tabular\*"):
        assert len(re.findall(rf"\\begin{{{environment}}}", latex)) == 1
        assert len(re.findall(rf"\\end{{{environment}}}", latex)) == 1
    assert [latex.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    plain = re.sub(r"\\.", "", latex)  # without escaped characters and command names' starts
    assert plain.count("{") == plain.count("}")
    assert plain.count("$") % 2 == 0
    assert not set("%#_^~") & set(plain)
    assert latex.isascii()
    columns = re.search(r"fill}}(l r*|lr*)@", latex)
    assert columns is not None
    header = latex.split("\\toprule\n")[1].split("\n")[0]
    assert header.count("&") + 1 == len(columns[1])


def test_special_characters_are_escaped() -> None:
    table = DisplayTable(
        "50 % of_all", ["a&b", "c"], [["x^2 {y} ~ # $5 \\z", "−1,234,567\n[ε ≤ 3]"]]
    )
    latex = table.to_latex()
    assert r"\caption{50 \% of\_all}" in latex
    assert r"a\&b & c \\" in latex
    assert r"x\textasciicircum{}2 \{y\} \textasciitilde{} \# \$5 \textbackslash{}z" in latex
    assert r"$-$1{,}234{,}567" in latex
    assert r"[$\varepsilon$ $\le$ 3]" in latex
    assert escape_latex("1, 2") == "1, 2"
    assert escape_latex("λ<2") == r"$\lambda$\textless{}2"


def test_a_label_is_not_read_as_an_argument_of_the_line_break() -> None:
    r"""After `\\`, LaTeX takes a bracket for a distance and an asterisk for a variant."""
    latex = DisplayTable(
        "", ["drift", "regret"], [["[a]", "1"], ["*b", "2"], ["c", "3"]]
    ).to_latex()
    assert "\n{}[a] & 1" in latex
    assert "\n{}*b & 2" in latex
    assert "\nc & 3" in latex


def width(text: str) -> float:
    """Measure a cell in Computer Modern at 8 points, LaTeX's footnotesize.

    Matplotlib's font has neither dashes nor signs other than plus, which is at least as wide.
    """
    plain = re.sub(r"\$?\\pm\$?", "+", text).replace("$-$", "+").replace("{,}", ",")
    plain = plain.replace("--", "+").replace("\\", "")
    font = FontProperties(family="cmr10", size=8)
    return float(TextToPath().get_text_width_height_descent(plain, font, ismath=False)[0])


@pytest.mark.parametrize("metrics", [("regret", "compensation"), ("regret",)])
def test_tables_fit_a_column(metrics: tuple[str, ...]) -> None:
    """Natural widths, with 3 points on both sides of each inner column border."""
    for latex in (result().to_latex(metrics), result().compare(0, 1).to_latex()):
        rows = cells(latex)
        widest = [max(width(row[i]) for row in rows) for i in range(len(rows[0]))]
        assert sum(widest) + 6 * (len(widest) - 1) <= COLUMN
    wide = cells(result().to_latex(("regret", "compensation", "compensated_pulls", "total_drift")))
    assert sum(max(width(row[i]) for row in wide) for i in range(5)) > COLUMN  # the control


def test_an_unknown_metric_is_rejected() -> None:
    with pytest.raises(
        entice.InputError, match="metrics must be metrics of the study; got 'regre'"
    ):
        result().to_latex(("regre",))


# HTML


def text_of(page: str) -> str:
    return re.sub(r"<[^>]+>", " ", page)


def test_a_result_shows_the_numbers_of_its_table() -> None:
    page = result()._repr_html_()
    assert page.count("<tr>") == 1 + 2 + 4
    for number in re.findall(r"[\d,.]+ ± [\d,.]+", str(result())):
        assert number in page
    both = entice.Result.concat([result(), entice.run(_other(), progress=False)])
    assert both._repr_html_().count("<table>") == 2


def _other() -> entice.Study:
    return entice.Study(
        arms=entice.Gaussian([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]),
        policies=[entice.UCB(name="<i>")], horizon=50, replications=2, seed=8, checkpoints=1,
    )  # fmt: skip


def test_labels_of_a_result_are_escaped() -> None:
    page = entice.run(_other(), progress=False)._repr_html_()
    assert "&lt;i&gt;" in page
    assert "<i>" not in page


def test_bounds_show_values_and_numbered_reasons() -> None:
    found = entice.theory.bounds(result())
    page = found._repr_html_()
    assert page.count("Theorem 1, as stated") == 2  # one for each drift
    assert "2,248" in page
    assert "9,591" in page
    reasons = {
        reason for column in ("doubts", "emptiness") for row in found[column] for reason in row
    }
    assert page.count("<li>") == len(reasons)
    assert isinstance(found, pl.DataFrame)
    assert "Theorem 1, as stated" not in found.head(1).drop("doubts")._repr_html_()
    kept = found.clone()
    kept.insert_column(0, pl.Series("new", [1] * len(found)))
    assert "shape: " in text_of(kept._repr_html_())  # polars' own table


def test_a_forecast_shows_its_table_and_answer() -> None:
    page = forecast()._repr_html_()
    assert page.count("<tr>") == 3
    assert "total cost" in page
    answer = " ".join(str(forecast()).split())
    for sentence in re.findall(r"<p>(.*?)</p>", page):
        assert " ".join(text_of(sentence).split())[:60] in answer.replace("'", "&#x27;")


def test_a_plan_shows_its_assumptions() -> None:
    plan = entice.Plan(
        arms=8, spread=entice.Spread(centre=4.1, width=0.45), visitors_a_day=300, days=60,
        price_of_a_star=2.0, drift=[0, 1], policies=[entice.UCB(name="<x>")],
    )  # fmt: skip
    page = plan._repr_html_()
    assert "300 visitors a day for 60 days" in page
    assert "seed to be drawn" in page
    assert "&lt;x&gt;" in page
    assert "<x>" not in page


# Figures


def test_a_paper_figure_fits_its_column() -> None:
    for draw in (result().plot, lambda **s: entice.theory.plot_bounds(result(), **s)):
        figure = draw(style="paper")
        assert figure.get_figwidth() == 3.25
        assert len({round(ax.get_position().x0, 2) for ax in figure.axes}) == 1  # one column
        assert drawn_outside(figure) == []
        title = figure.legends[0].get_title().get_text()
        assert " ".join(title.split()) == " ".join(BANDS.split())


def test_figures_draw_on_the_axes_of_the_user() -> None:
    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right, other = figure.subplots(1, 3)
    assert result().plot("compensation", ax=[left, right]) is figure
    assert [len(ax.lines) for ax in (left, right, other)] == [2, 2, 0]
    assert [ax.get_title(loc="left") for ax in (left, right)] == list(result().study.drift_labels)
    assert left.get_ylabel() == TITLES["compensation"]
    assert left.get_legend() is not None
    assert drawn_outside(figure) == []


def test_notes_are_kept_on_the_axes_of_the_user() -> None:
    stopped = entice.simulate(
        arms=result().study.arms, policies=[entice.UCB(), entice.EpsilonGreedy(c=5)],
        drifts=[entice.LinearDrift(10.0)], horizon=500, replications=20, seed=7, progress=False,
    )  # fmt: skip
    figure = Figure(figsize=(6, 4), layout="constrained")
    stopped.plot(ax=figure.subplots())
    assert STOPPED in " ".join(figure.axes[0].get_xlabel().split())
    shown = stopped.plot(backend="plotly")
    assert STOPPED in shown.layout.title.text


def test_plotly_draws_the_same_numbers() -> None:
    figure = result().plot("compensation", backend="plotly")
    medians = [trace for trace in figure.data if trace.fill is None]
    assert len(figure.data) == 3 * len(medians) == 12
    assert [trace.name for trace in medians if trace.showlegend] == list(
        result().study.policy_labels
    )
    last = result().curves.filter(policy_index=1, drift_index=1, metric="compensation")
    assert list(medians[3].y) == last["q50"].to_list()
    assert list(medians[3].x) == last["t"].to_list()
    band = next(t for t in figure.data[::-1] if t.name.endswith("q05 to q95"))
    assert list(band.y) == [*last["q95"], *reversed(last["q05"])]
    assert figure.layout.title.text == BANDS


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backend": "bokeh"}, "plot: backend must be"),
        ({"style": "poster"}, "style must be one of 'screen', 'paper'; got 'poster'"),
        ({"backend": "plotly", "style": "paper"}, "style and ax cannot be combined"),
        ({"backend": "plotly", "metric": "regre"}, "metric is unknown; got 'regre'"),
        ({"ax": Figure().subplots()}, "ax must be one of matplotlib's Axes for each of the 2"),
        ({"ax": [1, 2]}, "ax must be one of matplotlib's Axes"),
    ],
)
def test_invalid_settings_of_figures_are_rejected(
    settings: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(entice.InputError, match=message):
        result().plot(**settings)  # type: ignore[call-overload]


# Notebooks


def forecast() -> Forecast:
    return forecast_of_ten(lambda i: outcome(spend=9.0 + i), lambda i: outcome(stars_lost=3.0))


def test_a_notebook_displays_figures_without_pyplot() -> None:
    for figure in (result().plot("regret"), forecast().plot()):
        picture: bytes = figure._repr_png_()  # type: ignore[attr-defined]
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 5_000


def test_in_a_notebook_a_string_displays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich would display an empty output when a captured text ends."""
    displayed: list[str] = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda segments, text: displayed.append(text))
    compared = result().compare("UCB", "EpsilonGreedy(c=5)")
    for shown in (result(), compared, forecast()):
        assert len(str(shown).splitlines()) > 3
    assert displayed == []
    console = Console(width=100)
    with console.capture():
        console.print("the control")
    assert len(displayed) == 1
