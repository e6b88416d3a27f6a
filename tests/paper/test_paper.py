"""The reproduction: tables, figures, and the comparison with the published numbers."""

from __future__ import annotations

import math
import re
from pathlib import Path

import polars as pl
import pytest
from paper_fixtures import EQUAL_PAY_RUNS, RUNS, full_reproduction
from rich.console import Console

import entice
from entice.paper.claims import CONTRADICTED, IN_PART, SUPPORTED, claims
from entice.paper.reproduce import Reproduction, reproduce
from entice.paper.setups import COEFFICIENTS, NAMES, published
from entice.paper.terminal import print_reproduction

COLUMNS = [
    "policy", "l", "metric", "setup", "horizon", "mean", "stderr", "q05", "q50", "q95",
    "published", "inside",
]  # fmt: skip


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Reproduction, Path]:
    """The complete reproduction, with fewer replications."""
    return full_reproduction(tmp_path_factory)


def test_each_setup_explains_the_documented_number_of_published_values(
    full: tuple[Reproduction, Path],
) -> None:
    # With a fixed seed. Twelve other seeds, with 200, 500 and 1,000 runs, gave the same counts of
    # 21, so the outcome does not depend on the seed.
    coverage = pl.read_csv(full[1] / "coverage.csv")
    counts = {(p, s): (i, n) for p, s, _, i, n in coverage.iter_rows()}
    assert counts["ucb", "published"] == (21, 21)
    assert counts["thompson_sampling", "published"] == (21, 21)
    assert counts["thompson_sampling", "written"] == (0, 21)
    assert counts["ucb", "written"][0] <= 17
    assert counts["epsilon_greedy", "published"][0] >= counts["epsilon_greedy", "written"][0]


def test_tables_have_a_row_for_each_published_value_and_setup(
    full: tuple[Reproduction, Path],
) -> None:
    printed = published()
    for name, metrics in (
        ("table1", {"regret", "compensation"}),
        ("table2", {"compensated_pulls", "best_arm_error_percent"}),
    ):
        table = pl.read_csv(full[1] / f"{name}.csv")
        assert table.columns == COLUMNS
        assert table.height == 2 * 7 * 3 * 2
        assert set(table["metric"]) == metrics
        assert set(table["policy"]) == set(NAMES)
        assert set(table["setup"]) == {"written", "published"}
        assert sorted(set(table["l"])) == list(COEFFICIENTS)
        for row in table.iter_rows(named=True):
            value = printed.filter(policy=row["policy"], metric=row["metric"], l=row["l"])["value"]
            assert row["published"] == value.item()
            assert row["inside"] == (row["q05"] <= row["published"] <= row["q95"])
            assert row["q05"] <= row["q50"] <= row["q95"]
            assert row["stderr"] > 0


def test_setups_run_for_their_horizons(full: tuple[Reproduction, Path]) -> None:
    horizons = full[0].table1.select("policy", "setup", "horizon").unique().rows()
    assert sorted(horizons) == [
        ("epsilon_greedy", "published", 20_000), ("epsilon_greedy", "written", 20_000),
        ("thompson_sampling", "published", 10_000), ("thompson_sampling", "written", 20_000),
        ("ucb", "published", 10_000), ("ucb", "written", 20_000),
    ]  # fmt: skip


def test_the_greedy_baseline_matches_earlier_measurements(
    full: tuple[Reproduction, Path],
) -> None:
    # An independent implementation found a mean of about 2,250 and a 95 % quantile of 8,000. The
    # standard deviation is near 2,500: 4 standard errors of 500 runs are 450 (error 6e-5).
    row = pl.read_csv(full[1] / "greedy.csv").row(0, named=True)
    assert row["mean"] == pytest.approx(2250, abs=450)
    # 15 % of all runs end above 5,000 and 2.4 % above 9,000, in steps of about 2,000: the quantile
    # of 500 runs leaves this range with probability 5e-5.
    assert 5000 < row["q95"] < 9000
    assert sum(v for k, v in row.items() if k.startswith("stuck_on")) == pytest.approx(1)


def test_equal_pay_does_not_depend_on_the_drift(full: tuple[Reproduction, Path]) -> None:
    rows = pl.read_csv(full[1] / "equal_pay.csv")
    assert rows.select("l", "metric").rows() == [
        (0.0, "regret"), (1.1, "regret"), (0.0, "compensation"), (1.1, "compensation"),
    ]  # fmt: skip
    assert set(rows["runs"]) == {EQUAL_PAY_RUNS}
    assert set(rows["unchanged"]) == {1.0}
    regret, same, paid, _ = rows["mean"]
    assert regret == pytest.approx(same, rel=1e-9)
    # 1,500 runs of an independent implementation had a mean of 208, and paid 181. One run in 100
    # stays with the second arm, which costs 2,000: at other seeds the mean of 50 runs is further
    # off than 66 for 7 in 100, and that of 200 runs further than 33 for 10 in 100.
    assert regret == pytest.approx(208, abs=466 / math.sqrt(EQUAL_PAY_RUNS))
    # The median and the payments have no such tail. 1,500 runs of this implementation with another
    # seed had a median of 191, and of 100,000 samples of 50 of them none was beyond these ranges.
    assert rows["q50"][0] == pytest.approx(191, abs=50)
    assert paid == pytest.approx(181, abs=33)
    page = (full[1] / "report.html").read_text()
    assert "Equal pay, not from the paper" in page
    assert f"100 % of\nits {EQUAL_PAY_RUNS} runs" in page


def test_claims_are_judged_by_the_runs(full: tuple[Reproduction, Path]) -> None:
    """Verdicts that follow from the numbers of an independent implementation.

    The margins are about 5 standard errors of 200 runs (error 6e-7 each): 0.09 for the factor of
    Thompson sampling's paid pulls, 0.1 for that of its regret.
    """
    found = {claim.claim.split(",")[0]: claim for claim in claims(full[0])}
    assert len(claims(full[0])) == 9
    counts = found["The number of paid pulls of ε-greedy and Thompson sampling does not depend on "
                   "the drift"]  # fmt: skip
    assert counts.verdict == IN_PART
    epsilon_greedy, thompson = map(float, re.findall(r"\d\.\d+", counts.evidence))
    assert epsilon_greedy == pytest.approx(1, abs=0.05)
    assert thompson == pytest.approx(2.8, abs=0.45)
    assert found["Thompson sampling has the least compensation"].verdict == IN_PART
    assert found["Regret and compensation are worse under drift"].verdict == IN_PART
    assert found["The best arm's average is accurate for every l"].verdict == SUPPORTED
    written = next(c for c in claims(full[0]) if c.claim.endswith("as the paper describes it"))
    assert written.verdict == CONTRADICTED
    assert "Thompson sampling 0 of 21" in written.evidence


def test_verdicts_change_with_the_numbers(full: tuple[Reproduction, Path]) -> None:
    """Controls: tables in which all values, or all but a few, are inside; large errors."""
    original = full[0]
    inside = original.coverage.with_columns(inside=pl.col("published"))
    table2 = original.table2.with_columns(q50=pl.col("q50") + 5)
    greedy = original.greedy.with_columns(q95=pl.lit(5999.0))
    changed = original._replace(coverage=inside, table2=table2, greedy=greedy)
    verdicts = [claim.verdict for claim in claims(changed)]
    assert verdicts[:2] == [SUPPORTED, SUPPORTED]
    assert verdicts[-2:] == [CONTRADICTED, CONTRADICTED]


def test_figures_are_written_as_png_and_svg(full: tuple[Reproduction, Path]) -> None:
    for name in ("fig2", "fig3", "explained", "lock_in"):
        assert (full[1] / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (full[1] / f"{name}.svg").read_text()


def test_the_report_is_one_self_contained_page(full: tuple[Reproduction, Path]) -> None:
    page = (full[1] / "report.html").read_text()
    sources = re.findall(r"(?:src|href)=[\"']([^\"']+)", page)
    assert len(sources) == 4
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    assert "<script" not in page
    assert "$" not in re.sub(r"data:[^\"]+", "", page)
    assert f"entice reproduce --replications {RUNS} --seed 2020" in page
    assert page.count("<td class='number inside'") + page.count("<td class='number outside'") == 168


def test_the_terminal_shows_every_published_value(full: tuple[Reproduction, Path]) -> None:
    console = Console(width=80, record=True, file=None, quiet=False)
    with console.capture() as capture:
        print_reproduction(full[0], console)
    text = capture.get()
    for value in published()["value"]:
        assert f"{value:,g}" in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert "Not from the paper: equal pay" in text
    assert "21 of 21" in text
    assert "0 of 21" in text


def test_invalid_input_is_reported_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(entice.InputError, match="horizon must be at least 9"):
        reproduce(horizon=8, out=tmp_path / "none")
    with pytest.raises(entice.InputError, match="replications must be a whole number"):
        reproduce(replications=0, out=tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").touch()
    with pytest.raises(entice.InputError, match="output folder must be writable"):
        reproduce(out=tmp_path / "file")
