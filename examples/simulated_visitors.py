"""A simulated tea shop that uses the live service.

    python examples/simulated_visitors.py      # starts a service, and stops it at the end
    python examples/simulated_visitors.py --url http://127.0.0.1:8000 --key entice_… --campaign c_…

Each visitor sees the average rating of every tea and, without an offer, takes the best one. The
shop asks the service for an offer: usually that tea, sometimes another one with a payment for
trying it. Visitors decide while others arrive; they accept or decline, and rate late or never. Paid
visitors rate higher than the tea deserves: that is the drift. The simulation knows the true quality
of the teas, so it can report the regret.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from entice.api_types import CampaignView, OfferView
from entice.client import Client, ServiceError
from entice.money import Currency

QUALITY = {
    "assam": 3.4,
    "ceylon": 3.1,
    "darjeeling": 4.1,
    "oolong": 4.4,
    "rooibos": 2.7,
    "sencha": 3.8,
}
"""The true mean rating of each tea, unpaid. The service never sees it."""
DRIFT = 0.8  # the drift: stars added to a rating by a payment worth one star
SHARE_WHO_RATE = 0.6
SETTINGS: dict[str, Any] = {
    "name": "tea shop",
    "arms": list(QUALITY),
    "budget": 600_00,  # in cents, as all money is
    "price_of_a_star": 2_00,  # payment for forgoing one star
    "margin": 10,  # slightly more than the gap, so that most visitors accept
    "probe": {
        "share": 0.1,
        "amount": 0.5,
    },  # a coin flip in a tenth of the offers measures the drift
}


class Shop:
    """The visitors of the shop, and totals over them."""

    def __init__(self, client: Client, campaign: str, seed: int) -> None:
        self.client, self.campaign = client, campaign
        self.chance = random.Random(seed)
        self.run = secrets.token_hex(4)  # distinguishes the visitors of this run
        self.price_of_a_star = client.campaign(campaign).spec["price_of_a_star"]
        self.undecided: deque[tuple[OfferView, dict[str, float]]] = deque()
        self.to_rate: list[tuple[int, str, int]] = []  # time (in visitors), offer, stars
        self.shown: dict[str, float] = {}
        self.served = self.paid = self.declined = 0
        self.regret = 0.0
        self.sold = dict.fromkeys(QUALITY, 0)

    def visitor_arrives(self, in_flight: int) -> None:
        """Make an offer to the next visitor; process earlier visitors who decide or rate now."""
        if self.served % 20 == 0:  # the shop's page refreshes its averages now and then
            self.shown = {arm.id: arm.shown for arm in self.client.arms(self.campaign)}
        self.served += 1
        visitor = f"visitor {self.served} of run {self.run}"
        offer = self.client.offer(self.campaign, visitor, displayed=self.shown)
        self.undecided.append((offer, self.shown))
        while len(self.undecided) > in_flight:
            self.visitor_decides(*self.undecided.popleft())
        while self.to_rate and self.to_rate[0][0] <= self.served:
            _, offer_id, stars = heapq.heappop(self.to_rate)
            self.client.rate(offer_id, stars)

    def visitor_decides(self, offer: OfferView, shown: dict[str, float]) -> None:
        """Accept if the payment is worth the lower average to this visitor."""
        forgone = shown[offer.greedy_arm] - shown[offer.arm]
        worth = offer.amount / self.price_of_a_star + self.chance.gauss(0.0, 0.1)
        if offer.arm == offer.greedy_arm or worth >= forgone:
            self.client.accept(offer.id)
            self.visitor_leaves(offer.arm, offer)
        else:
            self.client.decline(offer.id)
            self.declined += 1
            self.visitor_leaves(offer.greedy_arm, None)

    def visitor_leaves(self, tea: str, offer: OfferView | None) -> None:
        """Record the purchase. Some visitors rate later, and paid ones rate higher."""
        best = max(QUALITY.values())
        self.sold[tea] += 1
        self.regret += best - QUALITY[tea]
        stars_paid = offer.payment if offer else 0.0
        self.paid += stars_paid > 0
        if self.chance.random() > SHARE_WHO_RATE:
            return
        # One star plus four coin flips whose probability gives the wanted mean.
        mean = min(QUALITY[tea] + DRIFT * stars_paid, 5.0)
        stars = 1 + sum(self.chance.random() < (mean - 1) / 4 for _ in range(4))
        if offer:
            heapq.heappush(
                self.to_rate, (self.served + self.chance.randrange(200), offer.id, stars)
            )
        else:  # not the offered tea: an organic rating
            self.client.enter_ratings(self.campaign, [(tea, stars)])

    def close(self) -> None:
        """Let undecided visitors decide. Pending ratings are dropped."""
        while self.undecided:
            self.visitor_decides(*self.undecided.popleft())


def view(shop: Shop, visitors: int) -> Group:
    """Render the current state: money, teas and regret."""
    campaign = shop.client.campaign(shop.campaign)
    arms = shop.client.arms(shop.campaign)
    bars = Table.grid(padding=(0, 2))
    bar = ProgressBar(max(visitors, 1), shop.served, width=40)
    bars.add_row("visitors", bar, f"{shop.served:,} of {visitors:,}")
    for name, amount, colour in (
        ("committed", campaign.committed, "green"),
        ("reserved", campaign.reserved, "yellow"),
        ("free", campaign.free, "blue"),
    ):
        bar = ProgressBar(max(campaign.budget, 1), amount, width=40, complete_style=colour)
        bars.add_row(name, bar, money(campaign, amount))
    teas = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("tea", "true mean", "average", "ratings", "in flight", "sold"):
        teas.add_column(heading, justify="left" if heading == "tea" else "right")
    for arm in sorted(arms, key=lambda arm: -QUALITY[arm.id]):
        average = "" if arm.average is None else f"{arm.average:.2f}"
        teas.add_row(
            f"{arm.id} ←" if arm.greedy else arm.id, f"{QUALITY[arm.id]:.2f}", average,
            f"{arm.rated:,}", f"{arm.in_flight:,}", f"{shop.sold[arm.id]:,}",
        )  # fmt: skip
    totals = Table.grid(padding=(0, 2))
    totals.add_row("paid, declined", f"{shop.paid:,}, {shop.declined:,}")
    totals.add_row("regret", f"{shop.regret:,.0f} stars, compared with {best_tea()} for everyone")
    totals.add_row("drift, from the probe", drift_of(shop))
    return Group(bars, Text(), teas, Text(), totals)


def money(campaign: CampaignView, amount: int) -> str:
    """Format an amount in minor units of the campaign's currency."""
    return Currency(campaign.currency, campaign.currency_digits).format(amount)


def best_tea() -> str:
    """Return the tea with the highest true quality."""
    return max(QUALITY, key=lambda tea: QUALITY[tea])


def drift_of(shop: Shop) -> str:
    """Return the service's drift estimate as text."""
    drift = shop.client.drift(shop.campaign)
    if drift.slope is None:
        return "not known yet" if drift.probed else "not measured: no probe"
    return f"{drift.slope:.2f} ({drift.low:.2f} to {drift.high:.2f}); true value {DRIFT:.2f}"


def summary(shop: Shop) -> str:
    """Summarise the run."""
    campaign = shop.client.campaign(shop.campaign)
    favourite = max(shop.client.arms(shop.campaign), key=lambda arm: arm.shown)
    served, best = max(1, sum(shop.sold.values())), best_tea()
    spent, budget = money(campaign, campaign.committed), money(campaign, campaign.budget)
    return (
        f"{served:,} visitors, of whom {shop.paid:,} were paid. Spent: {spent} of {budget}, a "
        f"budget that concurrent requests cannot exceed.\n"
        f"Displayed on top: {favourite.id}, with {favourite.shown:.2f} stars. Truly best: {best}, "
        f"which {shop.sold[best] / served:.0%} of the visitors drank. Regret: "
        f"{shop.regret:,.0f} stars, {shop.regret / served:.2f} per visitor. It grows ever more "
        f"slowly.\n"
        f"Drift, in stars per star paid: {drift_of(shop)}."
    )


@contextlib.contextmanager
def own_service() -> Iterator[str]:
    """Run a service on a free port, with a temporary database."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        entice = [sys.executable, "-c", "from entice.cli.app import main; main()"]
        options = ["--db", f"sqlite:///{folder}/shop.db", "--port", str(port)]
        # In a new session, so that Ctrl-C reaches only this script, which then stops the service.
        server = subprocess.Popen(
            [*entice, "serve", *options], start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(timeout=30)


def main() -> int:
    """Run the simulation."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--visitors", type=int, default=5000, help="number of visitors")
    parser.add_argument("--in-flight", type=int, default=50, help="number of undecided visitors")
    parser.add_argument("--seed", type=int, default=7, help="random seed of the visitors")
    parser.add_argument("--url", help="URL of a running service; default: start one")
    parser.add_argument("--key", help="API key")
    parser.add_argument("--campaign", help="id of a campaign with these teas; default: create one")
    options = parser.parse_args()
    console = Console(highlight=False)
    with contextlib.ExitStack() as stack:
        url = options.url or stack.enter_context(own_service())
        client = stack.enter_context(Client(url, options.key))
        with console.status("Waiting for the service"):
            deadline = time.monotonic() + 60
            while not client.ready() and time.monotonic() < deadline:
                time.sleep(0.1)
        try:
            campaign = options.campaign or client.create_campaign(seed=options.seed, **SETTINGS).id
            if {arm.id for arm in client.arms(campaign)} != set(QUALITY):
                parser.error(f"The campaign must have the arms {', '.join(QUALITY)}.")
            shop = Shop(client, campaign, options.seed)
            serve_visitors(shop, options.visitors, options.in_flight, console)
            console.print(f"\n{summary(shop)}")
        except ServiceError as error:
            console.print(f"The service returned an error: {error}", style="red", markup=False)
            return 1
    return 0


def serve_visitors(shop: Shop, visitors: int, in_flight: int, console: Console) -> None:
    """Serve visitors until there are enough, or until Ctrl-C; then complete open offers."""
    closing: list[int] = []  # Ctrl-C takes effect between two visitors
    before = signal.signal(signal.SIGINT, lambda number, _: closing.append(number))
    with Live(console=console, auto_refresh=False) as live:
        while shop.served < visitors and not closing:
            shop.visitor_arrives(in_flight)
            if shop.served % 50 == 0:
                live.update(view(shop, visitors), refresh=True)
        signal.signal(signal.SIGINT, before)
        shop.close()
        live.update(view(shop, visitors), refresh=True)


if __name__ == "__main__":
    sys.exit(main())
