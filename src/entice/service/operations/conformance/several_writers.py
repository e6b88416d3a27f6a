"""The service itself, on one store from several sides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from entice.service.domain.clock import Clock
from entice.service.domain.commands import Accept, Command, CreateCampaign, Decline, MakeOffer, Rate
from entice.service.domain.errors import Refusal
from entice.service.domain.spec import CampaignSpec
from entice.service.operations.conformance.common import PATIENCE, Open, demand, in_threads, opened
from entice.service.operations.verify import verify
from entice.service.storage.queries import Queries
from entice.service.storage.writer import Writer


def several_writers_share_a_campaign(open_store: Open) -> None:
    """Two desks, as of two processes, spend one budget and not a cent more."""
    with opened(open_store) as (store, other):
        desks = [Writer(of, Clock(), tick=3600.0) for of in (store, other)]
        for writer in desks:
            writer.start()
        try:
            campaign = _shop(desks)
        finally:
            for writer in desks:
                writer.stop()
        verdict = next(iter(verify(other, campaign)))
        demand(verdict.fault is None, f"`verify` finds: {verdict.fault}")


def _shop(desks: Sequence[Writer]) -> str:
    """Make 80 offers, accept and decline each, rate each twice, always from both desks at once."""
    spec = CampaignSpec(
        name="Tea", arms=["a", "b", "c"], budget=3000, price_of_a_star=200, unrated_shows=1, seed=1
    )
    made = desks[0].submit(CreateCampaign(spec)).result(PATIENCE)
    campaign = str(json.loads(made.body)["id"])
    offers = [f"{campaign}.{n}" for n in range(1, 81)]
    asked = [MakeOffer(campaign, player.to_bytes(16, "big")) for player in range(80)]
    at_once: list[tuple[Sequence[Command], Sequence[Command]]] = [
        (asked[::2], asked[1::2]),
        ([Accept(offer) for offer in offers], [Decline(offer) for offer in offers[::-1]]),
        ([Rate(offer, 2) for offer in offers], [Rate(offer, 2) for offer in offers[::-1]]),
    ]
    for commands in at_once:
        in_threads([partial(_carry_out, *pair) for pair in zip(desks, commands, strict=True)])
    view = Queries(desks[1].store).campaign(campaign)
    demand(view.decisions == 80, f"80 offers were acknowledged, and {view.decisions} are there")
    demand(view.reserved == 0, "every offer was answered, and some money is still reserved")
    demand(view.committed <= 3000, "more was spent than the budget")
    return campaign


def _carry_out(writer: Writer, commands: Sequence[Command]) -> None:
    for command in commands:
        try:
            writer.submit(command).result(PATIENCE)
        except Refusal as refusal:
            if refusal.status != 409:  # the other was faster
                raise
