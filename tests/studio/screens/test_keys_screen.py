"""Keys: created with roles and a campaign, shown once, revoked."""

from __future__ import annotations

import pytest
from browser.studio_pages import Studio, Visit
from playwright.sync_api import expect

from entice.client import Client, ServiceError


def test_a_key_is_created_shown_once_and_revoked(studio: Studio, visit: Visit) -> None:
    page = visit(studio.address("keys"))
    page.get_by_role("button", name="Create a key").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("Shop <b>")
    dialog.get_by_role("checkbox", name="read").uncheck()
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_have_text("Choose at least one role.")
    dialog.get_by_role("checkbox", name="decide").check()
    dialog.get_by_label("Campaigns", exact=True).select_option(studio.campaign)
    dialog.get_by_role("button", name="Create").click()
    expect(dialog).to_contain_text("not shown again")
    field = dialog.get_by_label("Key")
    key = field.input_value()
    # The whole key is visible, and neither Escape nor the button loses it.
    assert field.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    assert field.evaluate("(one) => one.scrollHeight <= one.clientHeight")
    for _ in range(3):
        page.keyboard.press("Escape")
    done = dialog.get_by_role("button", name="Done")
    expect(done).to_be_disabled()
    stored = dialog.get_by_role("checkbox", name="I have stored it")
    stored.check()
    expect(done).to_be_enabled()
    stored.uncheck()
    expect(done).to_be_disabled()
    expect(dialog.get_by_role("button", name="Copy")).to_have_class("primary")
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error()); }")
    dialog.get_by_role("button", name="Copy").click()
    expect(dialog).to_contain_text("Copy the selected text.")
    expect(done).to_be_disabled()
    page.evaluate("() => { delete navigator.clipboard.writeText; }")
    dialog.get_by_role("button", name="Copy").click()
    expect(dialog).to_contain_text("Copied.")
    done.click()
    expect(dialog).to_have_count(0)
    [made] = [one for one in studio.client.list_keys() if one.name == "Shop <b>"]
    assert (made.roles, made.campaign) == (["decide"], studio.campaign)
    assert key not in page.content()
    row = page.locator(f"tr[data-id='{made.id}']")
    expect(row).to_contain_text("decide")
    expect(row.get_by_role("link")).to_have_text("Teas of the month")
    with Client(studio.url, key) as shop:
        row.get_by_role("button", name="Revoke Shop <b>").click()
        expect(dialog).not_to_contain_text("You are using this key")
        dialog.get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("button", name="Revoke Shop <b>")).to_have_count(0)
        page.locator(".revoked summary").click()
        expect(page.get_by_role("table", name="Revoked keys")).to_contain_text("Shop <b>")
        with pytest.raises(ServiceError, match="API key required"):
            shop.offer(studio.campaign, "visitor of a revoked key")


def test_revoking_the_key_in_use_needs_a_confirmation(studio: Studio, visit: Visit) -> None:
    second = studio.client.create_key("Second", "admin")
    page = visit(f"{studio.url}/#key={second.key}&/keys", new=True, expecting="401")
    page.get_by_role("button", name="Revoke Second").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("You are using this key in this tab.")
    dialog.get_by_role("button", name="Revoke").click()  # the box is not checked yet
    assert studio.client.list_keys()[-1].revoked_at is None
    dialog.get_by_role("checkbox", name="I have another key").check()
    dialog.get_by_role("button", name="Revoke").click()
    expect(dialog).to_contain_text("This key is not valid")
    assert studio.client.list_keys()[-1].revoked_at is not None
    dialog.get_by_label("Key").fill(studio.key)
    page.keyboard.press("Enter")
    # One administrator is left, whose key cannot be revoked here.
    row = page.locator("tr", has_text="This tab")
    expect(row).to_contain_text("Last admin key")
    expect(row.get_by_role("button", name="Revoke")).to_have_count(0)
