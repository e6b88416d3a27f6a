"""Conformance checks for storage backends, including your own.

The service manages money, and relies on guarantees that a new backend can easily break: atomic
transactions, no lost updates, values that are stored exactly. The error of each check says which
guarantee is broken.
"""

from __future__ import annotations

from collections.abc import Callable

from entice.service.operations.conformance.common import NotConforming, Open
from entice.service.operations.conformance.several_writers import several_writers_share_a_campaign
from entice.service.operations.conformance.tables import (
    a_player_has_one_live_offer,
    an_overspent_budget_is_rejected,
    bulk_inserts_and_lookups_are_complete,
    foreign_keys_are_enforced,
    values_are_stored_exactly,
)
from entice.service.operations.conformance.transactions import (
    a_failed_statement_is_not_ignored,
    a_read_cannot_write,
    a_read_is_a_snapshot,
    a_store_works_after_an_error,
    a_write_is_atomic,
    a_write_is_durable,
    readers_and_writers_do_not_block_each_other,
    threads_read_concurrently,
)
from entice.service.operations.conformance.writers import (
    a_conditional_update_reports_its_rows,
    a_duplicate_key_is_rejected,
    no_update_is_lost,
    writers_that_lock_in_different_order_both_finish,
)

__all__ = ["CHECKS", "NotConforming", "Open", "check_store"]

CHECKS: tuple[Callable[[Open], None], ...] = (
    a_write_is_durable,
    a_write_is_atomic,
    a_failed_statement_is_not_ignored,
    a_store_works_after_an_error,
    a_read_is_a_snapshot,
    a_read_cannot_write,
    readers_and_writers_do_not_block_each_other,
    threads_read_concurrently,
    no_update_is_lost,
    a_conditional_update_reports_its_rows,
    writers_that_lock_in_different_order_both_finish,
    a_duplicate_key_is_rejected,
    an_overspent_budget_is_rejected,
    a_player_has_one_live_offer,
    foreign_keys_are_enforced,
    values_are_stored_exactly,
    bulk_inserts_and_lookups_are_complete,
    several_writers_share_a_campaign,
)
"""All checks. Each takes a function that opens the store, and raises `NotConforming` on failure."""


def check_store(open_store: Open) -> None:
    """Run all checks on a store. Its database may contain campaigns, which are not changed.

    Parameters
    ----------
    open_store
        Opens a new connection to the database. Called several times, also while others are open.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from entice.service.operations.conformance import check_store
    >>> from entice.service.storage.store import open_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_store(lambda: open_store(f"sqlite:///{folder}/entice.db"))
    """
    for check in CHECKS:
        check(open_store)
