"""Access: read-only without a key, and keys that are kept for one tab."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser.studio_pages import READY, SMALL, Studio, Visit, explore_table, small_plan
from playwright.sync_api import expect
from service_fixtures import TEAS, Server, server

from entice.client import Client


@pytest.fixture(scope="module")
def keyless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("keyless")) as running:
        yield running


def test_without_keys_the_page_is_read_only(keyless: Server, visit: Visit) -> None:
    page = visit(f"{keyless.url}/#/campaigns", expecting="403")
    expect(page.get_by_role("heading", name="No campaigns yet")).to_be_visible()
    with Client(keyless.url) as client:
        campaign = client.create_campaign(**TEAS).id
        client.offer(campaign, "visitor 1")
    page.goto(f"{keyless.url}/#/campaign/{campaign}")
    page.wait_for_selector(READY["campaign"])
    expect(page.locator(".read-only")).to_contain_text("entice keys create --role admin")
    expect(page.get_by_role("button", name="Close")).to_have_count(0)
    page.goto(f"{keyless.url}/{SMALL}")
    assert len(explore_table(page)) == 2
    page.goto(f"{keyless.url}/#/plan")
    small_plan(page, days=6)
    expect(page.get_by_text("Read only")).to_be_visible()
    expect(page.get_by_role("button", name="Create this campaign")).to_have_count(0)
    # The service rejects it too, not only the page.
    status = page.evaluate(
        """async (campaign) => (await fetch(`/v1/campaigns/${campaign}`, {
            method: "PATCH", body: '{"status": "closed"}',
            headers: {"Content-Type": "application/json"}})).status""",
        campaign,
    )
    assert status == 403


def test_a_key_is_required_and_kept_for_one_tab(studio: Studio, visit: Visit) -> None:
    page = visit(f"{studio.url}/#/trust", expecting="401")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("This service requires a key")
    page.keyboard.press("Escape")  # does not close it
    expect(dialog).to_be_visible()
    dialog.get_by_label("Key").fill("entice_0123abcd_wrong")
    dialog.get_by_role("button", name="Continue").click()
    expect(dialog).to_contain_text("This key is not valid")
    dialog.get_by_label("Key").fill(studio.key)
    page.keyboard.press("Enter")
    page.wait_for_selector(READY["trust"])
    expect(dialog).to_have_count(0)
    page.reload()
    page.wait_for_selector(READY["trust"])
    assert page.evaluate("() => [localStorage.length, document.cookie]") == [0, ""]
    tab = page.context.new_page()
    tab.goto(f"{studio.url}/#/trust")
    expect(tab.get_by_role("dialog")).to_contain_text("This service requires a key")


def test_a_key_is_removed_from_the_address(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("trust"), new=True)
    page.wait_for_selector(READY["trust"])
    assert page.url == f"{studio.url}/#/trust"
