"""Who may do what: read-only without a key, a key for the tab alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser.studio_pages import READY, SMALL, Studio, Visit, small_plan, table_of
from playwright.sync_api import expect
from service_fixtures import TEAS, Server, server

from entice.client import Client


@pytest.fixture(scope="module")
def keyless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("keyless")) as running:
        yield running


def test_without_a_key_one_may_look_and_simulate_only(keyless: Server, visit: Visit) -> None:
    page = visit(f"{keyless.url}/#/campaigns", expecting="403")
    expect(page.get_by_role("heading", name="No campaign yet")).to_be_visible()
    with Client(keyless.url) as client:
        campaign = client.create_campaign(**TEAS).id
        client.offer(campaign, "somebody")
    page.goto(f"{keyless.url}/#/campaign/{campaign}")
    page.wait_for_selector(READY["campaign"])
    expect(page.locator(".read-only")).to_contain_text("entice keys create --role admin")
    expect(page.get_by_role("button", name="Close")).to_have_count(0)
    page.goto(f"{keyless.url}/{SMALL}")
    assert len(table_of(page)) == 2
    page.goto(f"{keyless.url}/#/plan")
    small_plan(page, days=6)
    expect(page.get_by_text("Read only")).to_be_visible()
    expect(page.get_by_role("button", name="Create this campaign")).to_have_count(0)
    # It is the service that forbids it, not only the page.
    refused = page.evaluate(
        """async (campaign) => (await fetch(`/v1/campaigns/${campaign}`, {
            method: "PATCH", body: '{"status": "closed"}',
            headers: {"Content-Type": "application/json"}})).status""",
        campaign,
    )
    assert refused == 403


def test_a_key_is_asked_for_and_kept_for_the_tab(studio: Studio, visit: Visit) -> None:
    page = visit(f"{studio.url}/#/trust", expecting="401")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("This service asks for a key")
    page.keyboard.press("Escape")  # is no answer
    expect(dialog).to_be_visible()
    dialog.get_by_label("Key").fill("entice_0123abcd_wrong")
    dialog.get_by_role("button", name="Continue").click()
    expect(dialog).to_contain_text("This key is not accepted")
    dialog.get_by_label("Key").fill(studio.key)
    page.keyboard.press("Enter")
    page.wait_for_selector(READY["trust"])
    expect(dialog).to_have_count(0)
    page.reload()
    page.wait_for_selector(READY["trust"])
    assert page.evaluate("() => [localStorage.length, document.cookie]") == [0, ""]
    tab = page.context.new_page()
    tab.goto(f"{studio.url}/#/trust")
    expect(tab.get_by_role("dialog")).to_contain_text("This service asks for a key")


def test_a_key_in_the_address_does_not_stay_there(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("trust"))
    page.wait_for_selector(READY["trust"])
    assert page.url == f"{studio.url}/#/trust"
