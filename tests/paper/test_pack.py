"""The reproduction pack: two runs are equal byte for byte, and differences are found."""

from __future__ import annotations

import hashlib
import re
import zipfile
from pathlib import Path
from shutil import copy

import polars as pl
import pytest
from once import once

import entice
from entice.paper.pack import MANIFEST, main, pack_differences

ROOT = Path(__file__).parents[2]
SMALL = ["--replications", "10", "--horizon", "50", "--lock", str(ROOT / "requirements/demo.txt")]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def build(folder: Path) -> Path:
        archive = folder / "first.zip"
        assert main([*SMALL, "--archive", str(archive)]) == 0
        return archive

    return once(tmp_path_factory, "pack", build)[0]


def changed(archive: Path, to: Path, name: str, *, manifest: bool) -> Path:
    """Copy an archive with one byte of a file changed, and the manifest with it or not."""
    with zipfile.ZipFile(archive) as file:
        content = {entry: file.read(entry) for entry in file.namelist()}
    before = hashlib.sha256(content[name]).hexdigest()
    content[name] = content[name][:-2] + bytes([content[name][-2] ^ 1]) + content[name][-1:]
    if manifest:
        after = hashlib.sha256(content[name]).hexdigest()
        content[MANIFEST] = content[MANIFEST].replace(before.encode(), after.encode())
    with zipfile.ZipFile(to, "w") as file:
        for entry, data in content.items():
            file.writestr(zipfile.ZipInfo(entry, (1980, 1, 1, 0, 0, 0)), data)
    return to


def test_a_second_run_is_equal_byte_for_byte(
    first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], untraced: None
) -> None:
    """The control is an earlier archive with one byte changed."""
    planted = changed(first, tmp_path / "planted.zip", "figures/fig2.png", manifest=True)
    again, page = tmp_path / "again.zip", tmp_path / "page.md"
    options = ["--archive", str(again), "--check", str(planted), "--page", str(page)]
    assert main([*SMALL, *options]) == 1
    assert "figures/fig2.png: differs" in capsys.readouterr().err.splitlines()
    assert again.read_bytes() == first.read_bytes()
    with zipfile.ZipFile(again) as file:
        assert file.read("README.md").decode() == page.read_text()


def test_equal_archives_are_reported(
    first: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("entice.paper.pack.reproduce", lambda **_: None)
    monkeypatch.setattr("entice.paper.pack.write_pack", lambda _, __, to, ___: copy(first, to))
    again = tmp_path / "again.zip"
    assert main([*SMALL, "--archive", str(again), "--check", str(first)]) == 0
    assert capsys.readouterr().out == f"Wrote {again}. Equal to {first}, byte for byte.\n"


def test_the_archive_has_data_figures_lock_seeds_and_checksums(first: Path) -> None:
    with zipfile.ZipFile(first) as file:
        names = file.namelist()
        content = {name: file.read(name) for name in names}
        assert {entry.date_time for entry in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert names == sorted(names)
    listed = dict(line.split("  ")[::-1] for line in content.pop(MANIFEST).decode().splitlines())
    assert listed == {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}
    folders = {name.partition("/")[0] for name in names}
    assert folders == {"README.md", "report.html", MANIFEST, "data", "figures", "environment",
                       "runs", "studies"}  # fmt: skip
    assert content["environment/lock.txt"] == (ROOT / "requirements/demo.txt").read_bytes()
    assert f"entice {entice.__version__}\n" in content["environment/versions.txt"].decode()
    studies = [data.decode() for name, data in content.items() if name.startswith("studies/")]
    assert len(studies) == 6
    assert all("seed = 7\n" in study for study in studies)


def test_another_horizon_is_noted_in_the_report(first: Path) -> None:
    with zipfile.ZipFile(first) as file:
        table = pl.read_csv(file.read("data/table1.csv"))
        page = file.read("report.html").decode()
    assert set(table["horizon"]) == {50}
    assert "have 50 rounds, as set by --horizon" in page
    assert "--horizon 50" in page


@pytest.mark.parametrize("name", ["data/table2.csv", "figures/lock_in.png"])
def test_a_changed_byte_is_found(first: Path, tmp_path: Path, name: str) -> None:
    planted = changed(first, tmp_path / "planted.zip", name, manifest=True)
    assert pack_differences(first, planted) == [f"{name}: differs"]
    assert pack_differences(first, first) == []
    damaged = changed(first, tmp_path / "damaged.zip", name, manifest=False)
    with pytest.raises(entice.InputError, match="the archive must match its manifest"):
        pack_differences(first, damaged)


def test_files_in_one_archive_only_are_listed(first: Path, tmp_path: Path) -> None:
    fewer = tmp_path / "fewer.zip"
    with zipfile.ZipFile(first) as file, zipfile.ZipFile(fewer, "w") as copy:
        lines = file.read(MANIFEST).decode().splitlines(keepends=True)
        kept = [line for line in lines if not line.endswith("data/greedy.csv\n")]
        for line in kept:
            name = line.strip().split("  ")[1]
            copy.writestr(name, file.read(name))
        copy.writestr(MANIFEST, "".join(kept))
    assert pack_differences(first, fewer) == [f"data/greedy.csv: only in {first}"]
    assert pack_differences(fewer, first) == [f"data/greedy.csv: only in {first}"]


def test_archives_that_differ_in_their_entries_only(first: Path, tmp_path: Path) -> None:
    other = tmp_path / "times.zip"
    with zipfile.ZipFile(first) as file, zipfile.ZipFile(other, "w") as copy:
        for name in file.namelist():
            copy.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), file.read(name))
    assert pack_differences(first, other) == ["the archives differ outside their files"]


def test_wrong_files_are_rejected_before_any_work(first: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.zip"
    text.write_text("no archive")
    target = ["--archive", str(tmp_path / "new.zip")]
    for options, message in (
        (["--check", str(tmp_path / "none.zip")], "the file must exist"),
        (["--check", str(text)], "the archive must be a reproduction pack"),
        (["--check", str(tmp_path / "new.zip")], "must exist"),
        (["--archive", str(first), "--check", str(first)], "--check must differ from --archive"),
    ):
        with pytest.raises(entice.InputError, match=message):
            main([*SMALL, *target, *options])
    assert not (tmp_path / "new.zip").exists()


def test_the_page_in_the_docs_is_the_template_with_numbers() -> None:
    template = (ROOT / "src/entice/paper/pack.md").read_text()
    page = next(ROOT.glob("docs/**/reproduction_pack.md")).read_text()
    parts = re.split(r"(\$\w+)", template)
    pattern = "".join("(.+?)" if part.startswith("$") else re.escape(part) for part in parts)
    found = re.fullmatch(pattern, page, re.DOTALL)
    assert found is not None
    assert page.count("| **") == int(re.search(r"Of\s+(\d+) claims", page)[1])  # type: ignore[index]
    assert "entice reproduce --replications 1000 --seed 7" in page
