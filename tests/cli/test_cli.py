"""The command line: help, output files, and errors in one sentence before any work."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import polars as pl
import pytest
from command_line import CommandResult, RunEntice, assert_error, plain
from typer.testing import CliRunner

import entice
from entice import Result, Study
from entice.cli import app as cli
from entice.study.running import output_folder

SETTINGS = """\
# A small study.
horizon = 20
replications = 3
seed = 1
checkpoints = 2
"""
GAUSSIAN = '[arms]\nkind = "gaussian"\nmeans = [0.1, 0.9]\n'
UCB = '[[policies]]\nkind = "ucb"\n'
STUDY = SETTINGS + GAUSSIAN + UCB
NO_SEED = STUDY.replace("seed = 1\n", "")
WRITTEN = {"as_run.toml", "final.parquet", "curves.parquet"}

MODULE = """\
def seventh(t, pulls, means, memory, params, rng):
    return 7


def of_nothing(t, pulls, means, memory, params, rng):
    return pulls.nothing


def drift(payment, t, arm, params):
    return payment
"""


def policy_of(function: str) -> str:
    policy = f'kind = "custom"\nselect = "cli_functions:{function}"\n'
    return f"{SETTINGS}{GAUSSIAN}[[policies]]\n{policy}"


@pytest.fixture(autouse=True)
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Change to an empty folder with a study and a module of functions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "small.toml").write_text(STUDY)
    (tmp_path / "cli_functions.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("cli_functions", None)


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if a study is run."""

    def fail(*arguments: object, **options: object) -> NoReturn:
        pytest.fail("the study was run")

    monkeypatch.setattr(output_folder.StudyRun, "run", fail)


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = [p for p in folder.rglob("*") if p.is_file()]
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in files}


# --- Help -------------------------------------------------------------------------------------

HELP = {
    "": ("reproduce", "run", "bounds", "growth", "--version", "reward drift"),
    "bounds": ("--out", "--threads", "as proved", "vacuous", "95 %", "bounds.csv", "regret.png"),
    "growth": ("--replications", "--seed", "--out", "--threads", "log T", "growth.csv"),
    "run": (
        "--out", "--threads", "TOML", "Run the same command again to resume", "not run again",
        "final.parquet", "curves.parquet", "as_run.toml",
    ),
    "reproduce": (
        "--replications", "--seed", "--horizon", "--out", "--threads",
        "table1.csv", "table2.csv", "coverage.csv", "greedy.csv", "fig2", "fig3",
        "explained", "lock_in", "report.html",
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", HELP)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_the_options_and_the_files_written(command: str, option: str) -> None:
    result = CliRunner().invoke(cli.app, [*command.split(), option])
    assert result.exit_code == 0
    text = plain(result.output)
    assert [part for part in HELP[command] if part not in text] == [], text


@pytest.mark.parametrize("command", HELP)
def test_help_does_not_wait_for_the_compiler(command: str) -> None:
    script = f"""
import sys
sys.argv = ["entice", *{command.split()!r}, "--help"]
from entice.cli.app import main
try:
    main()
finally:
    slow = {{"numba", "polars", "numpy", "matplotlib", "msgspec"}} & set(sys.modules)
    print("slow imports:", sorted(slow))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Usage: entice" in plain(done.stdout)
    assert done.stdout.splitlines()[-1] == "slow imports: []"


def test_no_command_shows_the_help(run_entice: RunEntice) -> None:
    shown = plain(run_entice().out)
    assert "Usage:" in shown
    assert "reproduce" in shown


def test_version_is_printed(run_entice: RunEntice) -> None:
    assert run_entice("--version") == CommandResult(0, f"{entice.__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["simulate"], "No such command 'simulate'"),
        (["run", "small.toml"], "Missing option '--out'"),
        (["run", "--out", "out"], "Missing argument"),
        (["run", "small.toml", "--ou", "out"], "--out"),
        (["run", "small.toml", "--out", "out", "--threads", "two"], "--threads"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_an_invalid_command_line_is_rejected_without_traceback(
    run_entice: RunEntice, at: Path, arguments: list[str], expected: str
) -> None:
    result = run_entice(*arguments)
    assert result.code == 2
    assert expected in plain(result.err)
    assert "Traceback" not in result.err
    assert not (at / "out").exists()


# --- A study that runs ------------------------------------------------------------------------


def test_run_writes_only_the_result_and_the_study(at: Path) -> None:
    result = CliRunner().invoke(cli.app, ["run", "small.toml", "--out", "deep/out"])
    assert result.exit_code == 0
    out = at / "deep" / "out"
    assert {p.name for p in out.iterdir() if p.is_file()} == WRITTEN
    assert [p.name[:7] for p in out.iterdir() if p.is_dir()] == ["blocks-"]
    assert pl.read_parquet(out / "final.parquet")["replication"].to_list() == [0, 1, 2]
    assert pl.read_parquet(out / "curves.parquet")["t"].unique().sort().to_list() == [10, 20]
    assert Study.from_file(out / "as_run.toml") == Study.from_file(at / "small.toml")
    assert Result.load(out).study == Study.from_file(at / "small.toml")


def test_run_prints_a_table_of_cells_and_the_seed(run_entice: RunEntice) -> None:
    result = run_entice("run", "small.toml", "--out", "out")
    assert result.code == 0
    assert result.err == ""
    for part in ("policy", "drift", "regret", "compensation", "paid pulls", "UCB", "NoDrift"):
        assert part in result.out
    assert "After 20 rounds, 3 runs" in result.out
    assert "Seed 1." in result.out
    assert "out" in result.out.splitlines()[-1]


def test_all_written_files_have_the_same_permissions(run_entice: RunEntice, at: Path) -> None:
    run_entice("run", "small.toml", "--out", "out")
    files = [p for p in (at / "out").iterdir() if p.is_file()]
    modes = {p.name: oct(p.stat().st_mode & 0o777) for p in files}
    assert modes == dict.fromkeys(WRITTEN, modes["as_run.toml"])


def test_the_script_runs_a_study_like_the_library(at: Path) -> None:
    script = Path(sys.executable).with_name("entice")
    done = subprocess.run(
        [script, "run", "small.toml", "--out", "out", "--threads", "1"],
        capture_output=True, encoding="utf-8", env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "UCB" in done.stdout
    here = entice.run(Study.from_file("small.toml"))
    assert Result.load("out").final.equals(here.final)
    assert Result.load("out").curves.equals(here.curves)


@pytest.mark.parametrize("name", ["half [l=1]", "[/b]", "[bold]", "ä ✓"])
def test_names_are_printed_without_interpreting_markup(
    run_entice: RunEntice, at: Path, name: str
) -> None:
    drift = f'[[drifts]]\nkind = "custom"\nfunction = "cli_functions:drift"\nname = "{name}"\n'
    (at / "small.toml").write_text(STUDY + drift)
    result = run_entice("run", "small.toml", "--out", "out")
    assert result.code == 0
    assert name in result.out


# --- A folder of an earlier run ------------------------------------------------------------------


def test_a_finished_study_is_read_and_not_run_again(
    run_entice: RunEntice, at: Path, request: pytest.FixtureRequest
) -> None:
    first = run_entice("run", "small.toml", "--out", "out")
    before = contents(at / "out")
    request.getfixturevalue("no_work")
    again = run_entice("run", "small.toml", "--out", "out")
    assert again.out == first.out
    assert "nothing was run" in again.err
    assert contents(at / "out") == before


def test_the_folder_of_another_finished_study_is_rejected(
    run_entice: RunEntice, at: Path, request: pytest.FixtureRequest
) -> None:
    run_entice("run", "small.toml", "--out", "out")
    before = contents(at / "out")
    (at / "other.toml").write_text(STUDY.replace("seed = 1", "seed = 2"))
    request.getfixturevalue("no_work")
    result = run_entice("run", "other.toml", "--out", "out")
    assert_error(
        result, "output folder out", "seed is 1 there and 2 here", "Choose another folder with"
    )
    assert contents(at / "out") == before


def test_the_folder_of_another_unfinished_study_is_rejected(
    run_entice: RunEntice, at: Path, no_work: None
) -> None:
    (at / "out" / "blocks-0123456789abcdef").mkdir(parents=True)
    assert_error(run_entice("run", "small.toml", "--out", "out"), "output folder", "--out")
    assert [p.name for p in (at / "out").iterdir()] == ["blocks-0123456789abcdef"]


@pytest.mark.parametrize("name", ["final.parquet", "curves.parquet"])
def test_other_files_are_not_overwritten(
    run_entice: RunEntice, at: Path, no_work: None, name: str
) -> None:
    (at / "out").mkdir()
    (at / "out" / name).write_bytes(b"another file")
    before = contents(at / "out")
    assert_error(run_entice("run", "small.toml", "--out", "out"), "output folder", "--out")
    assert contents(at / "out") == before


def test_the_study_file_itself_is_not_overwritten(run_entice: RunEntice, at: Path) -> None:
    file = at / "study.toml"
    file.write_text(STUDY)
    run_entice("run", "study.toml", "--out", ".")
    assert file.read_text() == STUDY


def test_a_drawn_seed_is_printed_recorded_and_reused(run_entice: RunEntice, at: Path) -> None:
    (at / "no_seed.toml").write_text(NO_SEED)
    first = run_entice("run", "no_seed.toml", "--out", "out")
    assert first.code == 0
    seed = tomllib.loads((at / "out" / "as_run.toml").read_text())["seed"]
    assert f"Seed {seed}." in first.out
    before = contents(at / "out")
    assert run_entice("run", "no_seed.toml", "--out", "out").out == first.out
    assert contents(at / "out") == before


def test_an_interrupted_run_without_seed_resumes_with_its_drawn_seed(
    run_entice: RunEntice, at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (at / "no_seed.toml").write_text(NO_SEED)
    with monkeypatch.context() as during:

        def interrupt(*arguments: object, **options: object) -> NoReturn:
            raise KeyboardInterrupt

        during.setattr(output_folder.StudyRun, "run", interrupt)
        run_entice("run", "no_seed.toml", "--out", "out")
    assert [p.name for p in (at / "out").iterdir()] == ["as_run.toml"]
    seed = tomllib.loads((at / "out" / "as_run.toml").read_text())["seed"]
    result = run_entice("run", "no_seed.toml", "--out", "out")
    assert f"Seed {seed}." in result.out
    assert Result.load(at / "out").study.seed == seed


@pytest.mark.parametrize("finished", [0, 1])
def test_an_interruption_says_what_was_saved_and_how_to_resume(
    run_entice: RunEntice, at: Path, monkeypatch: pytest.MonkeyPatch, finished: int
) -> None:
    def interrupt(*arguments: object, **options: object) -> NoReturn:
        for number in range(finished):
            blocks = at / "out" / "blocks-0123456789abcdef"
            blocks.mkdir()
            (blocks / f"{number}.npz").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(output_folder.StudyRun, "run", interrupt)
    result = run_entice("run", "small.toml", "--out", "out")
    assert result.code == 130
    assert result.out == ""
    saved = " Finished blocks are saved in out. Run the same command again to resume."
    assert plain(result.err) == "Interrupted." + (saved if finished else " No block was finished.")


# --- Mistakes that are reported before any work -----------------------------------------------

MISTAKES = {
    "not TOML": ("horizon = = 20\n" + GAUSSIAN + UCB, ("TOML", "line 1")),
    "empty": ("", ("arms",)),
    "misspelt": (STUDY.replace("horizon", "horizn"), ("'horizn'", "you mean 'horizon'?")),
    "out of range": (STUDY.replace("horizon = 20", "horizon = 0"), ("horizon", "at least 1")),
    "one arm": (STUDY.replace("0.1, 0.9", "0.9"), ("means", "at least 2 arms")),
    "no such function": (policy_of("nobody"), ("'cli_functions:nobody'",)),
    "no such module": (policy_of("f").replace("cli_f", "no_f"), ("no_functions", "study's folder")),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_in_the_study_is_reported_before_the_folder_is_created(
    run_entice: RunEntice, at: Path, case: str
) -> None:
    text, expected = MISTAKES[case]
    (at / "wrong.toml").write_text(text)
    assert_error(run_entice("run", "wrong.toml", "--out", "out"), *expected)
    assert not (at / "out").exists()


@pytest.mark.parametrize("name", ["nowhere.toml", ".", "binary.toml"])
def test_an_unreadable_study_is_reported_before_the_folder_is_created(
    run_entice: RunEntice, at: Path, name: str
) -> None:
    (at / "binary.toml").write_bytes(b"\xff\xfe\x00")
    assert_error(run_entice("run", name, "--out", "out"), "study file", f"'{name}'")
    assert not (at / "out").exists()


@pytest.mark.parametrize("out", ["small.toml/out", "small.toml"])
def test_an_unwritable_folder_is_reported_before_any_work(
    run_entice: RunEntice, at: Path, no_work: None, out: str
) -> None:
    result = run_entice("run", "small.toml", "--out", out)
    assert_error(result, "output folder", f"'{out}'", "Choose another folder with")
    assert (at / "small.toml").read_text() == STUDY


@pytest.mark.parametrize("command", [["run", "small.toml"], ["reproduce"]], ids=lambda c: c[0])
@pytest.mark.parametrize("threads", ["0", "-1"])
def test_too_few_threads_are_reported_before_anything_is_written(
    run_entice: RunEntice, at: Path, command: list[str], threads: str
) -> None:
    result = run_entice(*command, "--out", "out", "--threads", threads)
    assert_error(result, "threads", "at least 1", f"got {threads}")
    assert not (at / "out").exists()


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("--replications", "0", "at least 1"),
        ("--seed", "-1", "0 to 2**63 - 1"),
        ("--horizon", "8", "at least 9"),
    ],
)
def test_reproduce_reports_mistakes_before_anything_is_written(
    run_entice: RunEntice, at: Path, option: str, value: str, rule: str
) -> None:
    result = run_entice("reproduce", "--out", "out", option, value)
    assert_error(result, option.strip("-"), rule, f"got {value}")
    assert not (at / "out").exists()


def test_a_policy_that_cannot_be_compiled_is_named_before_anything_is_written(
    run_entice: RunEntice, at: Path
) -> None:
    (at / "wrong.toml").write_text(policy_of("of_nothing"))
    result = run_entice("run", "wrong.toml", "--out", "out")
    assert_error(
        result, "of_nothing: select", "Unknown attribute 'nothing'", 'File "cli_functions.py"'
    )
    assert not (at / "out").exists()


# --- Mistakes that show during the run ----------------------------------------------------------


def test_an_arm_out_of_range_is_reported_with_policy_round_and_arm(
    run_entice: RunEntice, at: Path
) -> None:
    (at / "wrong.toml").write_text(policy_of("seventh"))
    result = run_entice("run", "wrong.toml", "--out", "out")
    assert_error(result, "seventh", "arm 7", "round 3", "replication 0", "0 to 1")
    assert not (at / "out" / "final.parquet").exists()


# --- main -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        entice.EnticeError("something [bold]is[/bold] wrong [/]"),
        entice.InputError("something [bold]is[/bold] wrong [/]", "must not be"),
        entice.StudyError("something [bold]is[/bold] wrong [/]"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_main_prints_entice_errors_and_exits_with_code_2(
    run_entice: RunEntice, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def failing(**options: object) -> NoReturn:
        raise error

    monkeypatch.setattr(cli, "app", failing)
    assert_error(run_entice("run"), "something [bold]is[/bold] wrong [/]")


def test_main_exits_with_code_130_on_ctrl_c(
    run_entice: RunEntice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(**options: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    assert run_entice("run") == CommandResult(130, "", "")


def test_main_does_not_hide_other_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**options: object) -> NoReturn:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        cli.main()
