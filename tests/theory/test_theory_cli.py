"""`entice bounds`, `entice growth`, and bounds in figures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from command_line import RunEntice, assert_error, plain
from drift_shapes import SHAPES

import entice
from entice import theory
from entice.theory.growth import paper_study

PAPER = """\
horizon = 20000
replications = 20
seed = 7
arms = { kind = "gaussian", means = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1] }
policies = [{ kind = "ucb" }, { kind = "epsilon_greedy", c = 5 }, { kind = "thompson_sampling" }]
drifts = [{ kind = "linear", l = 0.0 }, { kind = "linear", l = 1.1 }]
"""


def test_bounds_of_the_papers_instance(run_entice: RunEntice) -> None:
    Path("paper.toml").write_text(PAPER)
    ran = run_entice("bounds", "paper.toml")
    assert ran.code == 0
    output = plain(ran.out)
    for words in (
        "Theorem 1, as stated 2,248 no 1 no",
        "Theorem 1, as proved 2,165 no 1 no",
        "Theorem 1, as stated 9,591 no 1 no",
        "Theorem 1, as proved 9,508 no 1 no",
        "Theorem 2, as stated 750,520 no 1,4,5 yes 6",
        "Theorem 3, as stated ≥4·10⁹ no 1,8 yes 6",
        "1: not claimed for Gaussian rewards",
        "6: beyond the largest possible value, 16,000",
    ):
        assert words in output
    assert list(Path().iterdir()) == [Path("paper.toml")]  # nothing is saved without --out


def test_bounds_of_equal_pay_elimination(run_entice: RunEntice) -> None:
    """The combination of policy, drift and arms is compiled for other tests."""
    policy = '{ kind = "equal_pay_elimination", horizon = 20000, noise = 0.5, rho = 1.5 }'
    drift = 'kind = "custom", function = "drift_shapes:shaped"'
    drifts = [f"{{ {drift}, params = {list(SHAPES[name])} }}" for name in ("none", "linear 1.1")]
    text = re.sub(
        r"policies = .*", f"policies = [{policy}]", PAPER.replace("gaussian", "bernoulli")
    )
    Path("paper.toml").write_text(re.sub(r"drifts = .*", f"drifts = [{', '.join(drifts)}]", text))
    ran = run_entice("bounds", "paper.toml")
    assert ran.code == 0
    assert plain(ran.out).count("≤ Theorem E2 1,318 yes no") == 2  # with and without drift
    assert plain(ran.out).count("≤ Theorem E2 2,223 yes no") == 2


def test_bounds_fit_into_eighty_columns(
    run_entice: RunEntice, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("paper.toml").write_text(PAPER)
    monkeypatch.setenv("COLUMNS", "80")
    ran = run_entice("bounds", "paper.toml")
    assert "…" not in ran.out
    assert " ≤ Theorem 1, as stated      2,248" in ran.out


def test_bounds_save_their_result_like_run(run_entice: RunEntice) -> None:
    Path("paper.toml").write_text(PAPER)
    assert run_entice("bounds", "paper.toml", "--out", "out").code == 0
    expected = {"as_run.toml", "final.parquet", "curves.parquet", "bounds.csv"}
    files = {p.name for p in Path("out").iterdir() if p.is_file()}
    assert files == expected | {"regret.png", "compensation.png"}
    table = pl.read_csv("out/bounds.csv")
    kept = theory.bounds(entice.Result.load("out"))
    assert table["value"].to_list() == pytest.approx(kept["value"].to_list())
    assert table["doubts"][0] == kept["doubts"][0][0]
    ran = run_entice("run", "paper.toml", "--out", "out")
    assert "holds the finished result; nothing was run" in ran.err


@pytest.mark.parametrize(
    ("arms", "words"),
    [
        ('{ kind = "bernoulli", means = [0.9, 0.9, 0.5] }', "a single best arm, not 2 with"),
        ('{ kind = "bernoulli", means = [0.9] }', "at least 2 arms"),
    ],
)
def test_invalid_studies_are_rejected_before_they_are_run(
    run_entice: RunEntice, arms: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "entice.study.running.run.StudyRun.run", lambda *_: pytest.fail("the study was run")
    )
    Path("tied.toml").write_text(f'horizon = 100\narms = {arms}\npolicies = [{{ kind = "ucb" }}]\n')
    assert_error(run_entice("bounds", "tied.toml", "--out", "out"), words)
    assert not Path("out").exists()


def test_a_study_of_one_round_has_no_bounds(run_entice: RunEntice) -> None:
    Path("short.toml").write_text(
        'horizon = 1\ncold_start = "prior"\narms = { kind = "bernoulli", means = [0.9, 0.5] }\n'
        'policies = [{ kind = "ucb" }]\n'
    )
    assert_error(run_entice("bounds", "short.toml"), "T must be at least 2 rounds", "got 1")


def test_growth_of_a_study(run_entice: RunEntice) -> None:
    Path("small.toml").write_text(
        "horizon = 100000\nreplications = 20\nseed = 7\n"
        'arms = { kind = "gaussian", means = [0.9, 0.5] }\npolicies = [{ kind = "ucb" }]\n'
        'drifts = [{ kind = "none" }, { kind = "step", size = 0.5 }]\n'
    )
    ran = run_entice("growth", "small.toml", "--replications", "10", "--out", "out")
    assert ran.code == 0
    assert "Growth from T = 1,000 to 100,000" in ran.out
    assert "StepDrift(0.5) regret" in plain(ran.out)
    assert "Seed 7, 10 runs of each cell and horizon." in ran.out
    expected = {"growth.csv", "points.csv", "growth.png", "as_run.toml"}
    assert {p.name for p in Path("out").iterdir()} == expected
    table = pl.read_csv("out/growth.csv")
    assert table.filter(drift="StepDrift(0.5)", metric="regret")["fits"].to_list() == ["power"]
    assert pl.read_csv("out/points.csv")["T"].unique().sort().to_list() == [
        1_000, 3_162, 10_000, 31_623, 100_000,
    ]  # fmt: skip


def test_growth_does_not_overwrite_the_results_of_another_study(run_entice: RunEntice) -> None:
    text = (
        "horizon = 10000\nreplications = 5\n"
        'arms = { kind = "gaussian", means = [0.9, 0.5] }\npolicies = [{ kind = "ucb" }]\n'
    )
    Path("one.toml").write_text(text)
    Path("other.toml").write_text(text.replace("0.5]", "0.4]"))
    assert run_entice("growth", "one.toml", "--out", "out").code == 0
    kept = Path("out/growth.csv").read_bytes()
    assert run_entice("growth", "one.toml", "--out", "out").code == 0  # with the same seed
    assert Path("out/growth.csv").read_bytes() == kept
    assert_error(run_entice("growth", "other.toml", "--out", "out"), "must be empty, or hold this")
    assert Path("out/growth.csv").read_bytes() == kept


@pytest.mark.parametrize("command", [["growth"], ["bounds"]])
def test_an_interruption_is_reported(
    run_entice: RunEntice, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("entice.study.running.run.StudyRun.run", interrupted)
    Path("paper.toml").write_text(PAPER)
    ran = run_entice(*command, "paper.toml")
    assert ran.code == 130
    assert plain(ran.err) == "Interrupted. Nothing was saved."


def test_growth_requires_a_long_enough_horizon(run_entice: RunEntice) -> None:
    Path("paper.toml").write_text(PAPER.replace("20000", "2000"))
    ran = run_entice("growth", "paper.toml", "--out", "out")
    assert_error(ran, "horizons must be at least three", "a horizon of at least 10,000")
    assert not Path("out").exists()


def test_growth_runs_the_papers_arms_by_default() -> None:
    study = paper_study()
    assert study.horizon == 10_000_000
    assert [p.label for p in study.policies] == [
        "UCB", "EpsilonGreedy(c=5)", "EpsilonGreedy(c=360)", "ThompsonSampling",
    ]  # fmt: skip


# --- Figures ----------------------------------------------------------------------------------


def drawn(**settings: Any) -> tuple[list[str], str]:
    """Plot a study's regret with its bounds; return the legend and the notes below."""
    result = entice.simulate(horizon=2_000, replications=5, seed=7, **settings)
    figure = entice.theory.plot_bounds(result, "regret")
    figure.draw_without_rendering()
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    below = figure.get_supxlabel()
    return legend, below


def test_informative_bounds_are_drawn() -> None:
    legend, below = drawn(
        arms=entice.Bernoulli([0.9, 0.5, 0.4]),
        policies=[entice.UCB()],
        drifts=[entice.NoDrift(), entice.LinearDrift(0.5)],
    )
    assert legend == [
        "UCB",
        "UCB: Theorem 1 as stated",
        "UCB: Theorem 1 as proved",
        "Lai and Robbins 1985, lower bound",
    ]
    assert below == (
        "Bounds that do not apply or are vacuous here:\n"
        "Lai and Robbins 1985: UCB with LinearDrift(0.5): known without drift only."
    )


def test_uninformative_bounds_are_listed() -> None:
    legend, below = drawn(
        arms=entice.Gaussian([0.9, 0.5]),
        policies=[entice.EpsilonGreedy(c=5), entice.ThompsonSampling()],
        drifts=[entice.LinearDrift(1.1)],
    )
    assert legend == ["EpsilonGreedy(c=5)", "ThompsonSampling"]
    notes = " ".join(below.split())
    assert "Theorem 2 as stated: not claimed for Gaussian rewards" in notes
    assert "Theorem 3 as stated: not claimed for Gaussian rewards" in notes


def test_drawn_bounds_match_their_formulas() -> None:
    result = entice.simulate(
        arms=entice.Bernoulli([0.9, 0.5]), policies=[entice.UCB()], horizon=20_000,
        replications=5, seed=7,
    )  # fmt: skip
    ax = entice.theory.plot_bounds(result, "compensation").axes[0]
    (line,) = [line for line in ax.lines if line.get_label() == "UCB: Theorem 1"]
    rounds, values = line.get_data()
    assert values[-1] == pytest.approx(
        float(theory.theorem1.compensation.as_stated(20_000, gaps=[0.4]))
    )
    assert rounds[-1] == 20_000
    assert ax.get_ylim()[1] > values[-1]
