"""The record of the fault trials: which code each ran on, and the table of the docs."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from pathlib import Path

import msgspec
import pytest
from service_faults import __main__ as runner
from service_faults import record as recording
from service_faults.outcome import Outcome
from service_faults.trials import kill, replay

import entice
from entice.service.operations.fault_report import digest_of_source, read_fault_report


def test_make_faults_records_the_trials_that_were_run_and_keeps_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(long: bool) -> Outcome:
        raise RuntimeError("no luck")

    monkeypatch.setattr(replay, "run", lambda long: Outcome("replay", "1 | 2", "[ok]", "x", True))
    monkeypatch.setattr(kill, "run", broken)
    report, docs = tmp_path / "faults.json", tmp_path / "promises.md"
    shipped = read_fault_report()
    report.write_bytes(msgspec.json.encode(shipped))
    docs.write_text(f"Before:\n\n{recording.HEAD}\n|---|\n| old |\n\nAfter.\n")
    monkeypatch.setattr(runner, "record", partial(recording.record, path=report, docs=docs))
    arguments = ["service_faults", "--only", "replay", "--only", "kill", "--record"]
    monkeypatch.setattr("sys.argv", arguments)
    assert runner.main() == 1
    assert "no luck" in capsys.readouterr().out
    old = {trial.id: trial for trial in shipped.trials}
    new = {trial.id: trial for trial in read_fault_report(report).trials}
    assert list(new) == list(old) == list(runner.TRIALS)
    assert [name for name in new if new[name] != old[name]] == ["kill", "replay"]
    assert (new["kill"].passed, new["replay"].passed) == (False, True)
    version = recording.current_version()
    assert {(new[name].commit, new[name].source) for name in ("kill", "replay")} == {
        (version.commit, version.source)
    }
    text = docs.read_text(encoding="utf-8")
    assert text.startswith("Before:\n\n| test |")
    assert text.endswith(" |\n\nAfter.\n")
    assert "| old |" not in text
    assert f"| replay | 1 \\| 2 | [ok] | x | {version.date}, {version.commit}, 0 s |" in text
    assert "| kill |  | **failed**: error: RuntimeError('no luck') |  |" in text


def test_a_short_run_is_not_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["service_faults", "--short", "--record"])
    with pytest.raises(SystemExit):
        runner.main()
    assert "not allowed with argument --short" in capsys.readouterr().err


def test_the_docs_have_the_recorded_trials() -> None:
    docs = (recording.PROJECT / "docs" / "explanation" / "promises.md").read_text(encoding="utf-8")
    assert recording.markdown(read_fault_report()) in docs


def test_the_digest_of_the_source_changes_with_any_file_that_the_trials_test(
    tmp_path: Path,
) -> None:
    package = Path(entice.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, tmp_path, ignore=ignored, dirs_exist_ok=True)
    digest = digest_of_source(tmp_path)
    assert digest == digest_of_source(package)
    # Results of the trials, compiled files and the studio's page are not part of it.
    (tmp_path / "service" / "operations" / "faults.json").write_text("{}")
    (tmp_path / "model" / "step.pyc").write_bytes(b"x")
    (tmp_path / "studio" / "page" / "a.json").write_text("{}")
    assert digest_of_source(tmp_path) == digest
    seen = {digest}
    changed = (
        "service/http/app.py", "model/step.py", "policies/ucb.py", "money.py", "currencies.json",
        "rng.py", "jit/specialize.py", "estimate/effect.py", "api_types/offers.py", "studio/app.py",
    )  # fmt: skip
    for name in changed:
        path = tmp_path / name
        path.write_bytes(path.read_bytes() + b"#")
        seen.add(digest_of_source(tmp_path))
    migration = next((tmp_path / "service" / "storage" / "migrations").rglob("*.sql"))
    migration.rename(migration.with_name("9999.sql"))
    seen.add(digest_of_source(tmp_path))
    assert len(seen) == 2 + len(changed)


def test_the_recorded_commit_tells_whether_files_were_changed(tmp_path: Path) -> None:
    git = partial(subprocess.run, cwd=tmp_path, check=True, capture_output=True, text=True)
    file = tmp_path / "src" / "entice" / "service" / "a.py"
    file.parent.mkdir(parents=True)
    file.write_text("a = 1\n")
    assert recording.current_version(tmp_path).commit is None  # no repository
    git(["git", "init", "-q"])
    git(["git", "add", "."])
    git(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "a"])
    committed = git(["git", "rev-parse", "--short", "HEAD"]).stdout.strip()
    first = recording.current_version(tmp_path)
    assert first.commit == committed
    report = tmp_path / recording.REPORT
    report.parent.mkdir()
    report.write_text("{}")  # the record of an earlier trial of the same run
    assert recording.current_version(tmp_path) == first
    file.write_text("a = 2\n")
    changed = recording.current_version(tmp_path)
    assert changed.commit == f"{committed} with changes"
    assert changed.source != first.source
