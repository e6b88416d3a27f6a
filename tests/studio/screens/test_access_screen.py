"""Access: the token in the address of a service without keys; keys are kept for one tab."""

from __future__ import annotations

import contextlib
from pathlib import Path

from browser.studio_pages import READY, Studio, Visit
from playwright.sync_api import expect
from service_fixtures import TEAS, server

from entice.client import Client
from entice.service.storage.api_keys import Keys
from entice.service.storage.store import open_store


def test_the_printed_address_opens_a_service_without_keys(tmp_path: Path, visit: Visit) -> None:
    with server(tmp_path) as running, Client(running.url) as client:
        campaign = client.create_campaign(**TEAS).id
        client.offer(campaign, "visitor 1")
        page = visit(
            f"{running.url}/#key={running.token}&/campaign/{campaign}", expecting="401|ERR_"
        )
        page.wait_for_selector(READY["campaign"])
        assert running.token not in page.url
        page.get_by_role("button", name="Pause …").click()
        page.get_by_role("dialog").get_by_role("button", name="Pause").click()
        expect(page.get_by_role("button", name="Resume …")).to_be_visible()
        assert client.campaign(campaign).status == "paused"
        # The first key replaces the token. Control: the token has worked until here.
        with contextlib.closing(open_store(f"sqlite:///{tmp_path / 'entice.db'}")) as store:
            _, key = Keys(store).create("admin", None, "tests")
        dialog = page.get_by_role("dialog")
        # The page follows the campaign's events, and that request is refused without a click.
        expect(dialog).to_contain_text("A key now protects this service")
        expect(dialog).to_contain_text("no longer works")
        dialog.get_by_label("Key").fill(key)
        page.keyboard.press("Enter")
        page.wait_for_selector(READY["campaign"])


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
