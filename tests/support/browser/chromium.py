"""Where the browser is: the system's Chromium. `make browser` installs it where it can.

One definition, for the tests, the bench and the pictures of the docs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Error, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NAMED = "ENTICE_CHROMIUM"
"""The environment variable that names another one."""
FLAGS = (
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""It is to talk to the studio, and to nobody else."""


class NoBrowser(Exception):
    """There is none, or it does not start."""


def find() -> str:
    """The path of the browser."""
    names = (os.environ[NAMED],) if NAMED in os.environ else NAMES
    for name in names:
        if found := shutil.which(name):
            return found
    raise NoBrowser(
        f"There is no Chromium: looked for {', '.join(names)}. `make browser` installs it where it "
        "can: on Debian and Ubuntu, as root. Elsewhere install Chromium or Chrome, or let "
        f"{NAMED} name one."
    )


@contextmanager
def browser() -> Iterator[Browser]:
    """Run the browser, without a window."""
    path = find()
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        except Error as error:
            raise NoBrowser(
                f"{path} does not start. `make browser` says whether it is there; {NAMED} can name "
                f"another. {error.message}"
            ) from error
        yield started
        started.close()


def install() -> None:
    """Install Debian's package, where that needs no question."""
    if NAMED in os.environ or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    print("Installing Chromium, for the tests of the studio (once; a minute or two)", flush=True)
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        subprocess.run(["apt-get", "--quiet=2", *command], env=quiet, check=False)


def main() -> None:
    """Find the browser, else install it, else say what to do."""
    try:
        find()
    except NoBrowser:
        install()
        try:
            find()
        except NoBrowser as missing:
            sys.exit(str(missing))


if __name__ == "__main__":
    main()
