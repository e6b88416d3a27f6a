"""Clean environments with the built wheel, and the packages that its metadata declares."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib.metadata import Distribution, distributions
from pathlib import Path

from command_line import without_coverage
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
UV = Path(sys.prefix) / "bin" / "uv"


def build_sdist(folder: Path) -> Path:
    """Build the source distribution from this checkout."""
    return folder / _build("sdist", ROOT, folder)


def build_wheel(sdist: Path, folder: Path) -> Path:
    """Build the wheel from the source distribution alone."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    [source] = (folder / "source").iterdir()
    return folder / _build("wheel", source, folder)


def _build(kind: str, source: Path, folder: Path) -> str:
    script = f"from flit_core.buildapi import build_{kind}; print(build_{kind}({str(folder)!r}))"
    return _output(sys.executable, "-c", script, cwd=source).strip()


def files_of(wheel: Path) -> set[str]:
    """Return the files of the package in a wheel."""
    names = zipfile.ZipFile(wheel).namelist()
    return {name for name in names if name.startswith("entice/")}


class Environment:
    """A virtual environment with locked packages and the wheel, and nothing else.

    Parameters
    ----------
    folder
        Where to create it. The checkout is not on its path.
    lock
        A file of requirements/.
    wheel
        The wheel, which is installed without its dependencies.
    """

    def __init__(self, folder: Path, lock: str, wheel: Path) -> None:
        self.folder = folder
        _output(sys.executable, "-m", "venv", "--without-pip", str(folder))
        python = str(folder / "bin" / "python")
        hashed = ("--require-hashes", "--only-binary", ":all:")
        _install(python, *hashed, "-r", str(ROOT / "requirements" / lock))
        _copy_byte_code(self._site_packages)
        _install(python, "--no-deps", "--no-index", str(wheel))

    @property
    def _site_packages(self) -> Path:
        [path] = (self.folder / "lib").glob("python*/site-packages")
        return path

    def packages(self) -> dict[str, Distribution]:
        """Return the installed packages by their names."""
        found = distributions(path=[str(self._site_packages)])
        return {canonicalize_name(package.name): package for package in found}

    def declared(self, *extras: str) -> set[str]:
        """Return the names of the packages that Entice requires with some extras, itself included.

        Only the metadata of installed packages is read. A required package that is not installed is
        a KeyError.
        """
        installed, found, queue = self.packages(), set[str](), [("entice", frozenset(extras))]
        visited = set()
        while queue:
            name, wanted = queue.pop()
            if (name, wanted) in visited:
                continue
            visited.add((name, wanted))
            found.add(name)
            for line in installed[name].requires or ():
                requirement = Requirement(line)
                contexts = [{"extra": extra} for extra in wanted | {""}]
                marker = requirement.marker
                if marker is None or any(marker.evaluate(context) for context in contexts):
                    queue.append(
                        (canonicalize_name(requirement.name), frozenset(requirement.extras))
                    )
        return found

    def popen(self, program: str, *arguments: str, cwd: Path) -> subprocess.Popen[str]:
        """Start a program of the environment."""
        return subprocess.Popen(
            [str(self.folder / "bin" / program), *arguments],
            cwd=cwd,
            env=_environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, program: str, *arguments: str, cwd: Path) -> tuple[int, str, str]:
        """Run a program of the environment; return its exit code and its outputs."""
        process = self.popen(program, *arguments, cwd=cwd)
        out, err = process.communicate()
        return process.returncode, out, err


def _install(python: str, *arguments: str) -> None:
    """Install with uv or, as the Makefile does, with pip if uv cannot."""
    try:
        _output(str(UV), "pip", "install", "--python", python, "--quiet", *arguments)
    except (FileNotFoundError, AssertionError):
        pip = (sys.executable, "-m", "pip", "--python", python)
        _output(*pip, "install", "--quiet", *arguments)


def _copy_byte_code(target: Path) -> None:
    """Copy the byte code of packages from this environment, which would take 10 s to compile.

    Python ignores it if a source file has another time stamp or size.
    """
    for folder in Path(sysconfig.get_path("purelib")).rglob("__pycache__"):
        package = target / folder.parent.relative_to(sysconfig.get_path("purelib"))
        if package.is_dir():
            shutil.copytree(folder, package / "__pycache__", dirs_exist_ok=True)


def _environment() -> dict[str, str]:
    return {name: value for name, value in without_coverage().items() if name != "PYTHONPATH"}


def _output(*command: str, cwd: Path = ROOT) -> str:
    ran = subprocess.run(command, cwd=cwd, env=_environment(), text=True, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
