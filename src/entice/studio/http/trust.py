"""How far the service can be trusted: what must be true, and a log made again."""

from __future__ import annotations

import msgspec

from entice.service.http.authentication import READERS
from entice.service.http.context import AppContext
from entice.service.http.feedback import NOTHING
from entice.service.http.operation import Answered, Call, Operation, Reply
from entice.service.http.read_threads import look_up
from entice.service.operations.invariants import ReplayView, TrustView, read_trust_view
from entice.studio.http.json_lines import NDJSON, Lines, begin
from entice.studio.jobs.job import Replay
from entice.studio.studio import studio_of


async def read_trust(context: AppContext, call: Call) -> Reply:
    """Ask what can be trusted.

    What must be true of every campaign, looked at now; the last replay of each since the service
    was started; and what the last long run of faults found.
    """
    told = await look_up(
        read_trust_view, context.store, call.caller.campaign, studio_of(context).replays
    )
    return Reply(msgspec.json.encode(told))


async def replay(context: AppContext, call: Call) -> Lines:
    """Replay a log.

    What `entice verify` does, for one campaign: every event is made again, and compared. Lines of
    JSON: `queued`, `progress` now and then, then `replay`, which says whether all was right.
    """
    campaign = call.path["campaign"]
    await look_up(context.queries.head, campaign)

    def keep(kind: str, line: bytes) -> None:
        if kind == "replay":
            studio_of(context).replays[campaign] = msgspec.json.decode(line, type=ReplayView)

    return Lines(begin(context, call, Replay(context.store.url, campaign)), keep)


_EXAMPLE = {
    "campaigns": [
        {
            "id": "c_9f2c1ab34d5e6f70",
            "name": "Teas of the month",
            "invariants": [
                {
                    "name": "Spent and reserved stay within the budget",
                    "holds": True,
                    "detail": "1,240 is spent and 50 reserved of 50,000 (hundredths of EUR, if "
                    "that has cents).",
                }
            ],
            "replay": None,
        }
    ],
    "faults": None,
}

OPERATIONS = (
    Operation(
        "GET",
        "/v1/trust",
        read_trust,
        Answered({200: "What was found."}, TrustView, {"one campaign": _EXAMPLE}),
        roles=READERS,
    ),
    Operation(
        "POST",
        "/v1/campaigns/{campaign}/replay",
        replay,
        Answered({200: "How far it is, then the verdict."}, None, {}, (NDJSON,)),
        roles=READERS,
        body=NOTHING,
        problems=frozenset({429}),
    ),
)
