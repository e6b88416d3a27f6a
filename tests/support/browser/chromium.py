"""The system's Chromium, for tests, benchmarks and screenshots. `make browser` installs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Error, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
VARIABLE = "ENTICE_CHROMIUM"
"""The environment variable with the path of another browser."""
DISABLED_FEATURES = (
    # Pages of the browser's own window, in a process for each context: half of the CPU time of an
    # empty page.
    "WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "PreloadTopChromeWebUI",
    # What Playwright disables: Chromium reads only the last of several such flags.
    "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding",
    "ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints",
    "NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch",
)  # fmt: skip
FLAGS = (
    # Keep the browser from connecting to anything but the studio.
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--disable-features={','.join(DISABLED_FEATURES)}",
)


class NoBrowser(Exception):
    """No browser was found, or it does not start."""


def find_browser() -> str:
    """Return the path of the browser."""
    names = (os.environ[VARIABLE],) if VARIABLE in os.environ else NAMES
    for name in names:
        if found := shutil.which(name):
            return found
    raise NoBrowser(
        f"No Chromium found (looked for {', '.join(names)}). On Debian and Ubuntu, `make browser` "
        f"as root installs it. Elsewhere, install Chromium or Chrome, or set {VARIABLE} to its "
        "path."
    )


@contextmanager
def run_browser() -> Iterator[Browser]:
    """Run the browser without a window."""
    path = find_browser()
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        except Error as error:
            raise NoBrowser(
                f"{path} does not start. Run `make browser` to check it, or set {VARIABLE} to "
                f"another browser. {error.message}"
            ) from error
        yield started
        started.close()


def install() -> None:
    """Install Debian's package, if this needs no confirmation."""
    if VARIABLE in os.environ or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    print("Installing Chromium for the studio's tests (once, a minute or two) …", flush=True)
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        subprocess.run(["apt-get", "--quiet=2", *command], env=quiet, check=False)


def main() -> None:
    """Find or install the browser; exit with instructions if neither works."""
    try:
        find_browser()
    except NoBrowser:
        install()
        try:
            find_browser()
        except NoBrowser as missing:
            sys.exit(str(missing))


if __name__ == "__main__":
    main()
