"""`entice demo`: a service of its own with a shop in it, to look at; it leaves nothing behind."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn
from urllib.request import urlopen

from entice.client import Campaign, Client, ServiceError
from entice.errors import EnticeError
from entice.service.storage.api_keys import Keys
from entice.service.storage.store import open_store
from entice.studio.demo.visitors import TEAS, Shoppers

PAST = 400
"""Shoppers who have come before anybody looks."""
PAUSE = 0.3
"""Seconds between two shoppers from then on."""
LOOK_EVERY = 10
"""Shoppers after which it is asked which campaigns there are."""
SETTINGS: dict[str, Any] = {
    "name": "Teas of the month",
    "arms": list(TEAS),
    "budget": 600_00,
    "price_of_a_star": 2_00,
    "margin": 10,
    "pace_over": 5000,
    "rating_window": 60,
    "probe": {"share": 0.3, "amount": 0.5},
    "seed": 7,
}


class _Stop(Exception):
    pass


def demo(port: int, told: Callable[[str], None], shoppers: int = PAST) -> None:
    """Show a live service until Ctrl-C or SIGTERM.

    Parameters
    ----------
    port
        Where it listens on this machine; 0 is any that is free.
    told
        Called with what is going on; in the end with the address to open.
    shoppers
        Who have come before.
    """
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="entice-demo-") as folder,
            _service(Path(folder), port) as (url, key, process),
            Client(url, key) as client,
        ):
            told("Simulated shoppers fill a campaign with a past …")
            urlopen(f"{url}/").close()  # whoever opens the page has the simulations made ready
            campaign = _create(url, key, process)
            crowd = Shoppers(client, seed=7)
            for _ in range(shoppers):
                crowd.one_comes([campaign])
            told(f"\nThe studio is open: {url}/#key={key}\n\nCtrl-C ends it and removes its data.")
            _go_on(client, crowd, process)
    except (KeyboardInterrupt, _Stop):
        told("\nThe studio is closed.")
    finally:
        signal.signal(signal.SIGTERM, before)


def _create(url: str, key: str, process: subprocess.Popen[str]) -> Campaign:
    """Create the campaign as soon as its policy is compiled; others may still be under way."""
    with Client(url, key, retries=0) as client:
        while True:
            try:
                return client.create_campaign(**SETTINGS)
            except ServiceError as error:
                if error.kind != "not-ready" or process.poll() is not None:
                    raise
            time.sleep(0.1)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise _Stop


def _go_on(client: Client, crowd: Shoppers, process: subprocess.Popen[str]) -> None:
    """Let shoppers come, a few a second, as long as the service runs."""
    came, campaigns = 0, client.campaigns()
    while process.poll() is None:
        time.sleep(PAUSE)
        came += 1
        if came % LOOK_EVERY == 0:
            with contextlib.suppress(ServiceError):
                campaigns = client.campaigns()
        crowd.one_comes(campaigns)
    raise EnticeError(f"The service has ended by itself, with code {process.returncode}.")


@contextlib.contextmanager
def _service(folder: Path, port: int) -> Iterator[tuple[str, str, subprocess.Popen[str]]]:
    """Run a service on an empty database: its address, a key to it, and its process."""
    db = f"sqlite:///{folder}/demo.db"
    with contextlib.closing(open_store(db)) as store:
        _, key = Keys(store).create("admin", None, "demo")
    entice = [sys.executable, "-P", "-c", "from entice.cli.app import main; main()"]
    with (folder / "log.jsonl").open("w") as log:
        # A session of its own: Ctrl-C is for us, and we then end the service in good order.
        process = subprocess.Popen(
            [*entice, "serve", "--db", db, "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        yield _address(process, folder / "log.jsonl"), key, process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _address(process: subprocess.Popen[str], log: Path) -> str:
    """Wait until the service answers, and return where it is."""
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    if found is None:
        process.wait()
        raise EnticeError(f"The service did not start:\n{log.read_text()[-2000:]}")
    while process.poll() is None:
        with contextlib.suppress(OSError), urlopen(f"{found[0]}/healthz"):
            break
        time.sleep(0.05)
    return found[0]
