"""Check: several writers of the service share one store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from entice.service.domain.clock import Clock
from entice.service.domain.commands import Accept, Command, CreateCampaign, Decline, MakeOffer, Rate
from entice.service.domain.errors import Refusal
from entice.service.domain.spec import CampaignSpec
from entice.service.operations.conformance.common import (
    TIMEOUT,
    Open,
    in_threads,
    opened,
    require,
)
from entice.service.operations.verify import verify
from entice.service.storage.queries import Queries
from entice.service.storage.writer import Writer


def several_writers_share_a_campaign(open_store: Open) -> None:
    """Two writers, as in two processes, do not exceed a shared budget."""
    with opened(open_store) as (store, other):
        writers = [Writer(each, Clock(), tick=3600.0) for each in (store, other)]
        for writer in writers:
            writer.start()
        try:
            campaign = _run_commands(writers)
        finally:
            for writer in writers:
                writer.stop()
        result = next(iter(verify(other, campaign)))
        require(result.fault is None, f"`verify` reports: {result.fault}")


def _run_commands(writers: Sequence[Writer]) -> str:
    """Make 80 offers, accept and decline each, and rate each twice, from both writers at once."""
    spec = CampaignSpec(
        name="Tea", arms=["a", "b", "c"], budget=3000, price_of_a_star=200, unrated_shows=1, seed=1
    )
    created = writers[0].submit(CreateCampaign(spec)).result(TIMEOUT)
    campaign = str(json.loads(created.body)["id"])
    offers = [f"{campaign}.{n}" for n in range(1, 81)]
    requests = [MakeOffer(campaign, player.to_bytes(16, "big")) for player in range(80)]
    rounds: list[tuple[Sequence[Command], Sequence[Command]]] = [
        (requests[::2], requests[1::2]),
        ([Accept(offer) for offer in offers], [Decline(offer) for offer in offers[::-1]]),
        ([Rate(offer, 2) for offer in offers], [Rate(offer, 2) for offer in offers[::-1]]),
    ]
    for commands in rounds:
        in_threads([partial(_submit_all, *pair) for pair in zip(writers, commands, strict=True)])
    view = Queries(writers[1].store).campaign(campaign)
    require(view.decisions == 80, f"80 offers were acknowledged, but {view.decisions} exist")
    require(
        view.reserved == 0, "every offer was accepted or declined, but some money is still reserved"
    )
    require(view.committed <= 3000, "spending exceeds the budget")
    return campaign


def _submit_all(writer: Writer, commands: Sequence[Command]) -> None:
    for command in commands:
        try:
            writer.submit(command).result(TIMEOUT)
        except Refusal as refusal:
            if refusal.status != 409:  # the other writer was first
                raise
