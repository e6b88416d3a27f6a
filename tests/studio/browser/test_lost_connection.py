"""The service is lost: the page says so, keeps what it shows, and goes on when it is back."""

from __future__ import annotations

from pathlib import Path

from browser.studio_pages import READY, SMALL, Visit, table_of
from playwright.sync_api import expect
from service_fixtures import TEAS, server

from entice.client import Client

LOST = "ERR_|dynamically imported module|service may be down|503"
"""What the console says of answers that do not come, and while the service is not ready yet."""


def test_the_service_goes_and_comes_back(visit: Visit, tmp_path: Path) -> None:
    with server(tmp_path) as first, Client(first.url) as client:
        campaign = client.create_campaign(**TEAS).id
        client.offer(campaign, "one")
        explore = visit(f"{first.url}/{SMALL}", expecting=LOST)
        shop = visit(f"{first.url}/#/campaign/{campaign}", expecting=LOST)
        other = visit(f"{first.url}/#/campaigns", expecting=LOST)
        for page, screen in ((shop, "campaign"), (other, "campaigns")):
            page.wait_for_selector(READY[screen])
        numbers = table_of(explore)
        first.process.kill()
        first.process.wait()
        # Whoever follows a campaign is told at once, whoever moves a slider when it moves.
        expect(shop.locator("#banner")).to_contain_text("can't be reached")
        expect(shop.locator(".feed-item")).to_have_count(1)
        explore.get_by_label("How strong").press("End")
        expect(explore.locator("#banner")).to_contain_text("can't be reached")
        assert explore.locator(".card.table tbody tr").all_inner_texts() == numbers
        other.get_by_role("link", name="Trust").click()
        expect(other.get_by_role("alert")).to_contain_text("the service may be down")
    port = first.url.rpartition(":")[2]
    with server(tmp_path, "--port", port) as second, Client(second.url) as client:
        assert second.url == first.url
        client.offer(campaign, "two")
        for page in (shop, explore, other):
            expect(page.locator("#banner")).to_be_hidden()
        expect(shop.locator(".feed-item")).to_have_count(2)
        assert table_of(explore) != numbers
        expect(other.locator(READY["trust"])).to_be_visible()
