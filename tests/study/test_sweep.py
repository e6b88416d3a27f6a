"""Sweeps over horizons, seeds and parameters, from Python and from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from command_line import RunEntice, assert_error
from polars.testing import assert_frame_equal

import entice
from entice import Result, Study

pytestmark = pytest.mark.usefixtures("plain")

SWEEP = """
horizon = [40, 80]
replications = 3
seed = [1, 2]
checkpoints = 2
engine = "generic"
arms = { kind = "gaussian", means = [0.9, 0.1] }
policies = [{ kind = "ucb" }, { kind = "epsilon_greedy", c = [1, 5] }]
drifts = [{ kind = "none" }, { kind = "saturating", l = [0.5, 1.1], cap = [0.1, 0.2] }]
"""
SETTINGS: dict[str, Any] = {
    "arms": entice.Gaussian([0.9, 0.1]),
    "policies": [entice.UCB(), *(entice.EpsilonGreedy(c=c) for c in (1, 5))],
    "drifts": [
        entice.NoDrift(),
        *(entice.SaturatingDrift(l=l, cap=cap) for l in (0.5, 1.1) for cap in (0.1, 0.2)),
    ],
    "replications": 3,
    "checkpoints": 2,
    "engine": "generic",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return tmp_path / "sweep.toml"


def test_a_file_and_python_give_the_same_sweep(file: Path) -> None:
    studies = entice.sweep(horizon=[40, 80], seed=[1, 2], **SETTINGS)
    assert entice.sweep_from_file(file) == studies
    assert [(s.horizon, s.seed) for s in studies] == [(40, 1), (40, 2), (80, 1), (80, 2)]
    assert len(studies[0].policies) == 3
    assert len(studies[0].drifts) == 5


def test_simulate_sweeps(file: Path) -> None:
    whole = entice.simulate(horizon=[40, 80], seed=[1, 2], **SETTINGS, progress=False)
    for part, study in zip(whole.parts, entice.sweep_from_file(file), strict=True):  # type: ignore[arg-type]
        assert part.study == study
    alone = entice.simulate(horizon=80, seed=1, **SETTINGS, progress=False)
    found = whole.final.filter(horizon=80, seed=1).drop("study_index")
    assert_frame_equal(found, alone.final, check_exact=True)
    values = whole.summary().filter(metric="regret").select("horizon", "seed", "drift.l").unique()
    assert values.height == 4 * 3


def test_one_value_in_a_list_is_a_sweep_of_one() -> None:
    (study,) = entice.sweep(horizon=[40], seed=1, **SETTINGS)
    assert study == Study(horizon=40, seed=1, **SETTINGS)
    assert entice.sweep(horizon=40, **SETTINGS) == [Study(horizon=40, **SETTINGS)]


def test_a_file_without_lists_is_a_study(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(SWEEP.replace("[40, 80]", "40").replace("[1, 2]", "1"))
    study = entice.sweep_from_file(path)
    assert study == Study.from_file(path) == Study(horizon=40, seed=1, **SETTINGS)


def test_parameters_that_are_lists_take_a_list_of_lists() -> None:
    study = Study.from_toml(
        """
        horizon = 40
        arms = { kind = "gaussian", means = [0.9, 0.1] }
        policies = [{ kind = "custom", select = "spec_fixtures:first", params = [[1], [2]] }]
        drifts = [
            { kind = "per_arm", slopes = [[0.1, 0.2], [0.3, 0.4]] },
            { kind = "per_arm", slopes = [1, 2] },
        ]
        """
    )
    assert [p.params for p in study.policies] == [(1.0,), (2.0,)]  # type: ignore[union-attr]
    assert [d.slopes for d in study.drifts] == [(0.1, 0.2), (0.3, 0.4), (1.0, 2.0)]  # type: ignore[union-attr]


def test_labels_of_a_shared_name_are_unique() -> None:
    text = SWEEP.replace("[40, 80]", "40").replace("[1, 2]", "1")
    study = Study.from_toml(text.replace("c = [1, 5]", 'c = [1, 5], name = "eps"'))
    assert study.policy_labels == ("UCB", "eps [c=1.0]", "eps [c=5.0]")
    again = Study.from_toml(study.to_toml())
    assert again == study


def test_the_command_line_runs_a_sweep_and_resumes(
    file: Path, run_entice: RunEntice, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run_entice("run", "sweep.toml", "--out", "out")
    assert ran.code == 0, ran.err
    assert ran.out.count("After 40 rounds, 3 runs") == 2
    assert ran.out.count("After 80 rounds, 3 runs") == 2
    out = file.parent / "out"
    assert sorted(p.name for p in out.iterdir()) == [
        "horizon-40-seed-1", "horizon-40-seed-2", "horizon-80-seed-1", "horizon-80-seed-2",
    ]  # fmt: skip
    expected = entice.simulate(horizon=[40, 80], seed=[1, 2], **SETTINGS, progress=False)
    assert_frame_equal(Result.load(out).final, expected.final, check_exact=True)
    # One more horizon: finished studies are not run again.
    file.write_text(SWEEP.replace("[40, 80]", "[40, 60, 80]"))
    again = run_entice("run", "sweep.toml", "--out", "out")
    assert again.err.count("nothing was run") == 4
    assert len(Result.load(out).parts) == 6


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[40, 80]", "[]", "sweep: horizon must have at least one value"),
        ("[40, 80]", "[40, 40]", "sweep: horizon must not contain a value twice; got 40"),
        ("[40, 80]", "[40, 1]", "horizon must be at least the number of arms"),
        ("[40, 80]", "[40, 'x']", "horizon must be a number; got 'x'"),
        (
            "[40, 80]",
            "[[40], 80]",
            "horizon must be one number for a single study; got [40]",
        ),
        ("[1, 2]", "[1, -2]", "seed must be from 0 to"),
        ("c = [1, 5]", "c = []", "policies[1]: c must have at least one value to sweep over"),
        ("c = [1, 5]", "c = [1, 0]", "EpsilonGreedy: c must be greater than 0; got 0"),
        ("c = [1, 5]", "c = [1, 'x']", "EpsilonGreedy: c must be a number; got 'x'"),
        ("c = [1, 5]", "c = [1], d = [2]", "has an unknown setting; got 'd'"),
        ("c = [1, 5]", "c = 1, name = ['a', 'b']", "name must be text"),
        ('"ucb"', '["ucb", "greedy"]', "policies[0]: kind is unknown"),
        ("cap = [0.1, 0.2]", f"cap = {list(range(1, 600))}", "at most 1,000 entries; got '1,198'"),
        ("replications = 3", "replications = [3, 4]", "replications must be a number"),
    ],
)
def test_a_mistake_in_a_sweep_is_reported_before_anything_is_run(
    file: Path, run_entice: RunEntice, old: str, new: str, message: str
) -> None:
    assert old in SWEEP
    file.write_text(SWEEP.replace(old, new))
    assert_error(run_entice("run", "sweep.toml", "--out", "out"), message)
    assert not (file.parent / "out").exists()


def test_commands_for_one_study_reject_a_sweep(file: Path, run_entice: RunEntice) -> None:
    message = "the study: horizon must be one number for a single study"
    assert_error(run_entice("bounds", "sweep.toml"), message)
    with pytest.raises(entice.InputError, match=r"entice\.sweep_from_file"):
        Study.from_file(file)
    with pytest.raises(entice.InputError, match="horizon must be a number"):
        Study(horizon=[40, 80], **SETTINGS)  # type: ignore[arg-type]


def test_json_rejects_a_sweep() -> None:
    """A request to the service must not expand to more entries than it contains."""
    text = '{"horizon": 40, "arms": {"kind": "gaussian", "means": [0.9, 0.1]}, "policies": '
    with pytest.raises(entice.InputError, match="c must be a number"):
        Study.from_json(text + '[{"kind": "epsilon_greedy", "c": [1, 5]}]}')


def test_folders_of_one_study_and_of_several_are_not_mixed(tmp_path: Path) -> None:
    one = Study(horizon=40, seed=1, **SETTINGS)
    entice.run(one, out=tmp_path / "one", progress=False)
    with pytest.raises(entice.InputError, match="must not hold the result of a single study"):
        entice.run([one], out=tmp_path / "one", progress=False)
    entice.run([one], out=tmp_path / "several", progress=False)
    with pytest.raises(entice.InputError, match="must not hold the results of several studies"):
        entice.run(one, out=tmp_path / "several", progress=False)


@pytest.mark.parametrize(
    ("studies", "message"),
    [
        ([], "must have at least one study"),
        (7, "must be a Study or a list of them; got 7"),
        ([7], "must be a Study or a list of them"),
    ],
)
def test_run_rejects_other_types(studies: Any, message: str) -> None:
    with pytest.raises(entice.InputError, match=message):
        entice.run(studies)


def test_incompatible_studies_are_rejected_before_they_are_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "entice.study.running.run.StudyRun.run", lambda *_: pytest.fail("it was run")
    )
    one = Study(horizon=40, seed=1, **SETTINGS)
    more = msgspec.structs.replace(one, replications=5)
    with pytest.raises(entice.InputError, match=r"run: study .*counts twice"):
        entice.run([one, more], progress=False)
    wider = msgspec.structs.replace(one, arms=entice.Gaussian([0.9, 0.5, 0.1]))
    with pytest.raises(entice.InputError, match=r"run: study .*same number of arms"):
        entice.run([one, wider], progress=False)
