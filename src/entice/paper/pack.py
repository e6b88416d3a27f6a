"""The reproduction pack: an archive of a reproduction that a second run matches byte for byte.

`make reproduction-pack` runs this module in a clone, which has the lock file.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import sys
import tempfile
import zipfile
from importlib.metadata import requires, version
from importlib.resources import files
from pathlib import Path
from string import Template

import entice
from entice.atomic_file import atomic_file
from entice.errors import InputError
from entice.paper.claims import CONTRADICTED, IN_PART, SUPPORTED, Claim, claims
from entice.paper.report import reproduce_command
from entice.paper.reproduce import Reproduction, reproduce
from entice.paper.setups import equal_pay_study
from entice.study.results.result import Result
from entice.study.results.table import format_number

MANIFEST = "MANIFEST.sha256"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip file can store."""


def write_pack(reproduction: Reproduction, out: Path, archive: Path, lock: Path) -> None:
    """Archive a reproduction whose tables and figures are in `out`.

    Entries are sorted, not compressed (compressors differ between versions of zlib), and have no
    time of their own.
    """
    content = pack_content(reproduction, out, lock)
    lines = [f"{hashlib.sha256(content[name]).hexdigest()}  {name}" for name in sorted(content)]
    content[MANIFEST] = ("\n".join(lines) + "\n").encode()
    with atomic_file(archive) as path, zipfile.ZipFile(path, "w") as file:
        for name in sorted(content):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr, entry.create_system = 0o644 << 16, 3
            file.writestr(entry, content[name])


def pack_content(reproduction: Reproduction, out: Path, lock: Path) -> dict[str, bytes]:
    """Return the files of the archive by name, without the manifest."""
    content = {
        "README.md": pack_page(reproduction).encode(),
        "report.html": (out / "report.html").read_bytes(),
        "environment/lock.txt": lock.read_bytes(),
        "environment/versions.txt": _versions().encode(),
    }
    for path in out.iterdir():
        folder = {".csv": "data", ".png": "figures", ".svg": "figures"}.get(path.suffix)
        if folder is not None:
            content[f"{folder}/{path.name}"] = path.read_bytes()
    results = {f"setup-{i}": result for i, (_, result) in enumerate(reproduction.results)}
    for name, result in {**results, "greedy": reproduction.baseline}.items():
        content[f"studies/{name}.toml"] = result.study.to_toml().encode()
        content |= {f"runs/{name}/{key}": data for key, data in _saved(result).items()}
    study = equal_pay_study(reproduction.replications, reproduction.seed, reproduction.horizon)
    content["studies/equal_pay.toml"] = study.to_toml().encode()
    return content


def _saved(result: Result) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        saved = result.save(folder)
        return {path.name: path.read_bytes() for path in saved.iterdir()}


def _versions() -> str:
    """Return the versions that determine the numbers and figures: Python, machine, packages."""
    named = {requirement.split()[0].split("[")[0] for requirement in requires("entice") or ()
             if "extra ==" not in requirement} | {"llvmlite", "matplotlib"}  # fmt: skip
    lines = [f"entice {entice.__version__}", f"python {platform.python_version()}"]
    lines += [f"machine {platform.system()} {platform.machine()}"]
    return "\n".join(lines + [f"{name} {version(name)}" for name in sorted(named)]) + "\n"


def pack_page(reproduction: Reproduction) -> str:
    """Return the page of the pack: the reproducibility report, with the numbers of this run."""
    template = Template((files("entice.paper") / "pack.md").read_text(encoding="utf-8"))
    found = claims(reproduction)
    verdicts = [claim.verdict for claim in found]
    fit = {"policy": "thompson_sampling", "setup": "published", "metric": "regret", "l": 0.0}
    std = reproduction.table1.filter(**fit).row(0, named=True)
    return template.substitute(
        command=reproduce_command(reproduction),
        seed=reproduction.seed,
        replications=f"{reproduction.replications:,}",
        runs=f"{_total_runs(reproduction):,}",
        claims="\n".join(map(_row, found)),
        total=len(found),
        std_median=format_number(std["q50"]),
        std_mean=format_number(std["mean"]),
        std_published=format_number(std["published"]),
        supported=verdicts.count(SUPPORTED),
        in_part=verdicts.count(IN_PART),
        contradicted=verdicts.count(CONTRADICTED),
    )


def _total_runs(reproduction: Reproduction) -> int:
    results = [result for _, result in reproduction.results]
    cells = [len(r.final) for r in (*results, reproduction.baseline)]
    return sum(cells) + 2 * int(reproduction.equal_pay["runs"][0])


def _row(claim: Claim) -> str:
    return f"| {claim.claim} | {claim.rule} | {claim.evidence} | **{claim.verdict}** |"


def pack_differences(archive: Path, other: Path) -> list[str]:
    """Return how the files of two archives differ, a line for each file; empty if they are equal.

    The checksums are computed from the files, and each archive's own manifest is checked.
    """
    one, two = _checksums(archive), _checksums(other)
    found = [
        f"{name}: {'only in ' + str(archive) if name in one else 'only in ' + str(other)}"
        for name in sorted(one.keys() ^ two.keys())
    ]
    found += [f"{name}: differs" for name in sorted(one.keys() & two.keys())
              if one[name] != two[name]]  # fmt: skip
    if not found and archive.read_bytes() != other.read_bytes():
        found.append("the archives differ outside their files")
    return found


def _checksums(archive: Path) -> dict[str, str]:
    try:
        with zipfile.ZipFile(archive) as file:
            content = {name: file.read(name) for name in file.namelist()}
        listed = content.pop(MANIFEST).decode()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        rule = f"must be a reproduction pack ({error})"
        raise InputError("the archive", rule, given=str(archive)) from error
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}
    if listed != "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)):
        rule = "must match its manifest"
        todo = f"Unpack it and run `sha256sum --check {MANIFEST}` to find the damaged file."
        raise InputError("the archive", rule, given=str(archive), todo=todo)
    return sums


def main(arguments: list[str] | None = None) -> int:
    """Reproduce the paper, write the archive, and compare it with an earlier one."""
    parser = argparse.ArgumentParser(prog="entice.paper.pack", description=main.__doc__)
    parser.add_argument("--replications", type=int, default=1000, help="Runs of each cell.")
    parser.add_argument("--seed", type=int, default=7, help="Random seed.")
    parser.add_argument("--horizon", type=int, help="Number of rounds. Default: the paper's.")
    parser.add_argument("--lock", type=Path, required=True, help="Lock file of the environment.")
    parser.add_argument("--archive", type=Path, required=True, help="Archive to write.")
    parser.add_argument("--page", type=Path, help="File for a copy of the page.")
    parser.add_argument("--check", type=Path, help="Earlier archive that the new one must equal.")
    given = parser.parse_args(arguments)
    for path in filter(None, (given.lock, given.check)):
        if not path.is_file():
            raise InputError("the file", "must exist", given=str(path))
    if given.check is not None:
        if given.check.resolve() == given.archive.resolve():
            rule = "must differ from --archive, which would replace it"
            raise InputError("--check", rule, given=str(given.check))
        _checksums(given.check)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"replications": given.replications, "seed": given.seed}
        found = reproduce(**settings, horizon=given.horizon, out=Path(folder))
        write_pack(found, Path(folder), given.archive, given.lock)
    if given.page is not None:
        given.page.write_text(pack_page(found), encoding="utf-8")
    differences = [] if given.check is None else pack_differences(given.archive, given.check)
    for line in differences:
        print(line, file=sys.stderr)
    equal = f" Equal to {given.check}, byte for byte." if given.check and not differences else ""
    print(f"Wrote {given.archive}.{equal}")
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
