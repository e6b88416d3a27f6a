"""A lost connection: the page reports it, keeps its data, and reconnects."""

from __future__ import annotations

from pathlib import Path

from browser.studio_pages import READY, SMALL, Visit, explore_table
from playwright.sync_api import expect
from service_fixtures import TEAS, server

from entice.client import Client

LOST = "ERR_|dynamically imported module|service may be down|503"
"""Console errors while the service is down or not ready."""


def test_pages_survive_a_restart_of_the_service(visit: Visit, tmp_path: Path) -> None:
    with server(tmp_path) as first, Client(first.url) as client:
        campaign = client.create_campaign(**TEAS).id
        client.offer(campaign, "one")
        key = f"{first.url}/#key={first.token}&"
        explore = visit(f"{key}{SMALL.replace(',thompson', '')[1:]}", expecting=LOST)
        followed = visit(f"{key}/campaign/{campaign}", expecting=LOST)
        other = visit(f"{key}/campaigns", expecting=LOST)
        for page, screen in ((followed, "campaign"), (other, "campaigns")):
            page.wait_for_selector(READY[screen])
        numbers = explore_table(explore)
        first.process.kill()
        first.process.wait()
        # A page that follows a campaign notices at once, Explore when a slider moves.
        expect(followed.locator("#banner")).to_contain_text("cannot be reached")
        expect(followed.locator(".feed-item")).to_have_count(1)
        explore.get_by_label("Strength").press("End")
        expect(explore.locator("#banner")).to_contain_text("cannot be reached")
        assert explore.locator(".card.table tbody tr").all_inner_texts() == numbers
        other.get_by_role("link", name="Trust").click()
        expect(other.get_by_role("alert")).to_contain_text("the service may be down")
    port = first.url.rpartition(":")[2]
    with server(tmp_path, "--port", port) as second, Client(second.url) as client:
        assert second.url == first.url
        client.offer(campaign, "two")
        for page in (followed, explore, other):
            expect(page.locator("#banner")).to_be_hidden()
        expect(followed.locator(".feed-item")).to_have_count(2)
        assert explore_table(explore) != numbers
        expect(other.locator(READY["trust"])).to_be_visible()
