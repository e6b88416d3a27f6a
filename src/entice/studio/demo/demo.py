"""`entice demo`: a temporary service with a demo campaign, and a reproduction of the paper."""

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
from urllib.request import Request, urlopen

from entice.api_types import CampaignView
from entice.client import Client, ServiceError
from entice.errors import EnticeError
from entice.local_token import read_token, remove_token
from entice.progress import report_compilation, reporting
from entice.studio.demo.reproduction import ReproductionReader
from entice.studio.demo.visitors import TEAS, VisitorSimulator

PAST_VISITORS = 400
"""Visitors simulated at once, as soon as the campaign's policy is compiled."""
LOADING = 3.0
"""Seconds after which the campaign's policy is not being loaded, but compiled."""
PAUSE = 0.3
"""Seconds between two visitors after that."""
REFRESH_EVERY = 10
"""Visitors after which the list of campaigns is read again."""
VISITORS_KEY = "Demo visitors"
"""Name of the key that the visitors use once the user has created one."""
_STOP_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
SETTINGS: dict[str, Any] = {
    "name": "Teas of the month",
    "arms": list(TEAS),
    "budget": 600_00,
    "price_of_a_star": 2_00,
    "margin": 10,
    "pace_over": 5000,
    "rating_window": 60,
    "probe": {"share": 0.3, "amount": 0.5},
    "disclosure": "You get a discount for trying this tea, whatever rating you give.",
    "seed": 7,
}


class _Stop(Exception):
    pass


def demo(port: int, report: Callable[[str], None], visitors: int = PAST_VISITORS) -> None:
    """Run a temporary service with simulated visitors until Ctrl-C, SIGTERM or SIGHUP.

    The address is reported when the service responds. After that, the campaign is created, and the
    paper is reproduced in the background. Their progress is drawn if standard error is a terminal.

    Parameters
    ----------
    port
        Port on 127.0.0.1; 0 chooses a free one.
    report
        Called with each message for the user, including the address to open.
    visitors
        Number of visitors simulated at once.
    """
    # SIGHUP: the terminal was closed. The service would go on, since it has its own session.
    # `nohup` ignores that signal, and so does the demo then.
    previous = {
        number: signal.signal(number, _stop)
        for number in _STOP_SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        with (
            tempfile.TemporaryDirectory(prefix="entice-demo-") as folder,
            _service(Path(folder), port) as (url, key, process),
            Client(url, key) as client,
        ):
            _start_worker(url, key)
            report(
                f"\nOpen the studio in a browser: {url}/#key={key}\n\n"
                "Its demo campaign and its reproduction of the paper are in preparation.\n"
                "Press Ctrl-C to stop it and delete its data.\n"
            )
            simulator = VisitorSimulator(client, seed=7)
            with reporting(None, "Preparing the demo campaign", "visitors") as shown:
                campaign = _create(url, key, process)
                for number in range(visitors):
                    shown(number + 1, visitors)
                    simulator.step([campaign])
            report("The demo campaign is live: see the Campaigns screen.")
            arrivals = _simulate_visitors(simulator, Path(folder), process, report)
            reproduction = ReproductionReader(url, key)
            with reporting(None, "Reproducing the paper") as shown:
                while reproduction.is_running:
                    next(arrivals)
                    reproduction.show(shown)
            report(reproduction.result())
            for _ in arrivals:
                pass
    except (KeyboardInterrupt, _Stop):
        report("\nStopped. The demo's data has been deleted.")
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _create(url: str, key: str, process: subprocess.Popen[str]) -> CampaignView:
    """Create the campaign as soon as its policy is compiled."""
    started = time.monotonic()
    with Client(url, key, retries=0) as client:
        while True:
            try:
                return client.create_campaign(**SETTINGS)
            except ServiceError as error:
                if error.kind != "not-ready" or process.poll() is not None:
                    raise
            if time.monotonic() - started > LOADING:
                report_compilation(0, 1)
            time.sleep(0.1)


def _start_worker(url: str, key: str) -> None:
    """Start the studio's worker, which compiles while the page is opened."""
    urlopen(Request(f"{url}/v1/studio", headers={"Authorization": f"Bearer {key}"})).close()


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise _Stop


def _simulate_visitors(
    simulator: VisitorSimulator,
    folder: Path,
    process: subprocess.Popen[str],
    report: Callable[[str], None],
) -> Iterator[None]:
    """Simulate a few visitors per second, and yield after each, while the service runs.

    The first key that the user creates replaces the token. The visitors then get a key with the
    roles of a shop, which is listed with the others. They stop if the user revokes it.
    """
    count, has_key, campaigns = 0, False, simulator.client.campaigns()
    with contextlib.ExitStack() as clients:
        while process.poll() is None:
            time.sleep(PAUSE)
            count += 1
            if count % REFRESH_EVERY == 0:
                try:
                    campaigns = simulator.client.campaigns()
                except ServiceError as error:
                    if error.kind == "unauthorized" and not has_key:
                        key, has_key = _create_key(folder), True
                        simulator.client = clients.enter_context(Client(simulator.client.url, key))
                        report(
                            "A key protects the service now: the address above no longer opens "
                            f"the studio. The simulated visitors use the key “{VISITORS_KEY}”."
                        )
                    elif error.kind == "unauthorized" and campaigns:
                        campaigns = []
                        report("The key of the simulated visitors is revoked: no more arrive.")
            simulator.step(campaigns)
            yield
    raise EnticeError(f"The service exited unexpectedly with code {process.returncode}.")


def _create_key(folder: Path) -> str:
    """Create a key for the visitors in the database, as `entice keys create` does."""
    from entice.service.storage.api_keys import Keys
    from entice.service.storage.player_hasher import player_hasher_for
    from entice.service.storage.store import open_store

    with contextlib.closing(open_store(_database(folder))) as store:
        keys = Keys(store, player_hasher_for(store, None))
        return keys.create("decide,feedback,read", None, VISITORS_KEY)[1]


def _database(folder: Path) -> str:
    return f"sqlite:///{folder}/demo.db"


@contextlib.contextmanager
def _service(folder: Path, port: int) -> Iterator[tuple[str, str, subprocess.Popen[str]]]:
    """Run a service on an empty database; yield its address, its token and its process."""
    entice = [sys.executable, "-P", "-c", "from entice.cli.app import main; main()"]
    with (folder / "log.jsonl").open("w") as log:
        # In a new session, so that Ctrl-C reaches this process only, which stops the service.
        process = subprocess.Popen(
            [*entice, "serve", "--db", _database(folder), "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        url = _address(process, folder / "log.jsonl")
        where = "127.0.0.1", int(url.rpartition(":")[2])
        token = read_token(*where)
        assert token is not None
        try:
            yield url, token, process
        finally:
            remove_token(*where)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _address(process: subprocess.Popen[str], log: Path) -> str:
    """Wait until the service responds, and return its address."""
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
