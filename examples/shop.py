"""A tea shop that pays its customers to explore: the live service, driven by simulated customers.

    python examples/shop.py                # starts a service of its own, and stops it at the end
    python examples/shop.py --url http://127.0.0.1:8000 --key entice_… --campaign c_…

Each customer sees the average rating of every tea, and left alone would take the best. The shop
asks the service what to offer: mostly that very tea, sometimes another one with some money for
trying it. Customers make up their minds while others come in; they take the offer or decline it,
and rate late or never. And they are grateful: whoever is paid rates higher than the tea deserves.
Here the true quality of the teas is known, as it is in no real shop, so we can tell what was lost.
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
GRATITUDE = 0.8  # a payment worth one star raises the rating by so many stars: the drift
SHARE_WHO_RATE = 0.6
SETTINGS: dict[str, Any] = {
    "name": "tea shop",
    "arms": list(QUALITY),
    "budget": 600_00,  # in cents, as all money is
    "price_of_a_star": 2_00,  # what a customer is paid for forgoing one
    "margin": 10,  # a little more than what the averages say is lost, or few would bother
    "probe": {"share": 0.1, "amount": 0.5},  # a coin in every tenth offer, to measure the drift
}


class Shop:
    """Customers coming and going, and what became of them."""

    def __init__(self, client: Client, campaign: str, seed: int) -> None:
        self.client, self.campaign = client, campaign
        self.chance = random.Random(seed)
        self.day = secrets.token_hex(4)  # another run has other customers
        self.price_of_a_star = client.campaign(campaign).spec["price_of_a_star"]
        self.thinking: deque[tuple[OfferView, dict[str, float]]] = deque()
        self.to_rate: list[tuple[int, str, int]] = []  # when (in customers), which offer, stars
        self.shown: dict[str, float] = {}
        self.served = self.paid = self.declined = 0
        self.regret = 0.0
        self.sold = dict.fromkeys(QUALITY, 0)

    def customer_comes(self, in_flight: int) -> None:
        """Make the next one an offer; then see who has made up their mind, and who rates now."""
        if self.served % 20 == 0:  # the page shows averages that may be a little old
            self.shown = {arm.id: arm.shown for arm in self.client.arms(self.campaign)}
        self.served += 1
        customer = f"customer {self.served} of day {self.day}"
        offer = self.client.offer(self.campaign, customer, displayed=self.shown)
        self.thinking.append((offer, self.shown))
        while len(self.thinking) > in_flight:
            self.customer_decides(*self.thinking.popleft())
        while self.to_rate and self.to_rate[0][0] <= self.served:
            _, offer_id, stars = heapq.heappop(self.to_rate)
            self.client.rate(offer_id, stars)

    def customer_decides(self, offer: OfferView, shown: dict[str, float]) -> None:
        """Take the offer if its money makes up for the lower average, as this customer sees it."""
        forgone = shown[offer.greedy_arm] - shown[offer.arm]
        worth = offer.amount / self.price_of_a_star + self.chance.gauss(0.0, 0.1)
        if offer.arm == offer.greedy_arm or worth >= forgone:
            self.client.accept(offer.id)
            self.customer_leaves(offer.arm, offer)
        else:
            self.client.decline(offer.id)
            self.declined += 1
            self.customer_leaves(offer.greedy_arm, None)

    def customer_leaves(self, tea: str, offer: OfferView | None) -> None:
        """Drink the tea. Some rate it, sooner or later; who was paid sees it in a better light."""
        best = max(QUALITY.values())
        self.sold[tea] += 1
        self.regret += best - QUALITY[tea]
        stars_paid = offer.payment if offer else 0.0
        self.paid += stars_paid > 0
        if self.chance.random() > SHARE_WHO_RATE:
            return
        # Of four steps above one star, each is gained with the same chance: the mean is as wanted.
        mean = min(QUALITY[tea] + GRATITUDE * stars_paid, 5.0)
        stars = 1 + sum(self.chance.random() < (mean - 1) / 4 for _ in range(4))
        if offer:
            heapq.heappush(
                self.to_rate, (self.served + self.chance.randrange(200), offer.id, stars)
            )
        else:  # bought without an offer: an organic rating
            self.client.enter_ratings(self.campaign, [(tea, stars)])

    def close_up(self) -> None:
        """Let those who are still thinking decide. Ratings that have not come by now never do."""
        while self.thinking:
            self.customer_decides(*self.thinking.popleft())


def view(shop: Shop, customers: int) -> Group:
    """Draw the shop as it is: money, teas, and how well it does."""
    campaign = shop.client.campaign(shop.campaign)
    arms = shop.client.arms(shop.campaign)
    bars = Table.grid(padding=(0, 2))
    bar = ProgressBar(max(customers, 1), shop.served, width=40)
    bars.add_row("customers", bar, f"{shop.served:,} of {customers:,}")
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
    told = Table.grid(padding=(0, 2))
    told.add_row("paid, declined", f"{shop.paid:,}, {shop.declined:,}")
    told.add_row("regret so far", f"{shop.regret:,.0f} stars, against {best_tea()} for everyone")
    told.add_row("drift, from the probe", drift_of(shop))
    return Group(bars, Text(), teas, Text(), told)


def money(campaign: CampaignView, amount: int) -> str:
    """Write an amount of the campaign's currency, which comes in its smallest unit."""
    return Currency(campaign.currency, campaign.currency_digits).format(amount)


def best_tea() -> str:
    """Name the tea that everyone should drink."""
    return max(QUALITY, key=lambda tea: QUALITY[tea])


def drift_of(shop: Shop) -> str:
    """Say what the service knows of the customers' gratitude."""
    drift = shop.client.drift(shop.campaign)
    if drift.slope is None:
        return "not known yet" if drift.probed else "not measured, for want of a probe"
    return f"{drift.slope:.2f} ({drift.low:.2f} to {drift.high:.2f}); in truth {GRATITUDE:.2f}"


def summary(shop: Shop) -> str:
    """Say in words how it went."""
    campaign = shop.client.campaign(shop.campaign)
    favourite = max(shop.client.arms(shop.campaign), key=lambda arm: arm.shown)
    served, best = max(1, sum(shop.sold.values())), best_tea()
    spent, budget = money(campaign, campaign.committed), money(campaign, campaign.budget)
    return (
        f"{served:,} customers came, and {shop.paid:,} of them were paid for what they tried: "
        f"{spent} in all, of a budget of {budget} that can't be overspent, however many come at "
        f"once.\n"
        f"Customers now see {favourite.id} on top, with {favourite.shown:.2f} stars; the best tea "
        f"in truth is {best}. {shop.sold[best] / served:.0%} of all customers drank that. What the "
        f"others missed adds up to {shop.regret:,.0f} stars, {shop.regret / served:.2f} for each "
        f"customer: that is the regret. It grows more and more slowly.\n"
        f"Who is paid one star more rates higher by, in stars: {drift_of(shop)}."
    )


@contextlib.contextmanager
def own_service() -> Iterator[str]:
    """Run a service on a free port, with a database that is thrown away at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        entice = [sys.executable, "-c", "from entice.cli.app import main; main()"]
        options = ["--db", f"sqlite:///{folder}/shop.db", "--port", str(port)]
        # A session of its own: Ctrl-C is for the shop, which then stops the service itself.
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
    """Open the shop."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--customers", type=int, default=5000)
    parser.add_argument("--in-flight", type=int, default=50, help="who are still thinking it over")
    parser.add_argument("--seed", type=int, default=7, help="of the customers")
    parser.add_argument("--url", help="of a running service; by default one is started")
    parser.add_argument("--key", help="an API key of it")
    parser.add_argument("--campaign", help="one with these teas; by default one is created")
    options = parser.parse_args()
    console = Console(highlight=False)
    with contextlib.ExitStack() as stack:
        url = options.url or stack.enter_context(own_service())
        client = stack.enter_context(Client(url, options.key))
        with console.status("Waiting for the service"):
            patience = time.monotonic() + 60
            while not client.ready() and time.monotonic() < patience:
                time.sleep(0.1)
        try:
            campaign = options.campaign or client.create_campaign(seed=options.seed, **SETTINGS).id
            if {arm.id for arm in client.arms(campaign)} != set(QUALITY):
                parser.error(f"The campaign must have the arms {', '.join(QUALITY)}.")
            shop = Shop(client, campaign, options.seed)
            trade(shop, options.customers, options.in_flight, console)
            console.print(f"\n{summary(shop)}")
        except ServiceError as error:
            console.print(f"The service said: {error}", style="red", markup=False)
            return 1
    return 0


def trade(shop: Shop, customers: int, in_flight: int, console: Console) -> None:
    """Let customers come until there are enough, or until Ctrl-C; then close in good order."""
    closing: list[int] = []  # Ctrl-C is noticed between two customers, not in the middle of one
    before = signal.signal(signal.SIGINT, lambda number, _: closing.append(number))
    with Live(console=console, auto_refresh=False) as live:
        while shop.served < customers and not closing:
            shop.customer_comes(in_flight)
            if shop.served % 50 == 0:
                live.update(view(shop, customers), refresh=True)
        signal.signal(signal.SIGINT, before)
        shop.close_up()
        live.update(view(shop, customers), refresh=True)


if __name__ == "__main__":
    sys.exit(main())
