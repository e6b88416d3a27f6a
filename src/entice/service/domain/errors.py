"""What a service may answer instead of doing what it was asked."""

from __future__ import annotations

from typing import Any

from entice.errors import EnticeError


class Refusal(EnticeError):
    """A request that can't be carried out, as an RFC 9457 problem. It has changed nothing."""

    def __init__(self, status: int, kind: str, title: str, detail: str, **extra: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        """Ends the problem's type, `urn:entice:problem:<kind>`: programs go by it."""
        self.title = title
        self.detail = detail
        self.extra = extra


class NotReady(Refusal):
    """A request for a campaign whose policy is not compiled yet, just after the start."""

    def __init__(self, policy: str, retry_after: int) -> None:
        detail = (
            f"The service has just started, and the policy {policy} is not compiled yet. Send it "
            "again in a few seconds; /readyz answers 200 when all policies are."
        )
        super().__init__(503, "not-ready", "Not ready", detail)
        self.retry_after = retry_after
        """Seconds."""


class Unavailable(EnticeError):
    """The database can't be reached or written just now.

    As a rule nothing was changed. Where a connection broke during a commit, nobody knows: whoever
    sends the request again with the same idempotency key gets it carried out once.
    """


class Corrupt(EnticeError):
    """The database holds what Entice never wrote. Nothing more is written until it is mended."""


class SchemaTooNew(EnticeError):
    """The database was written by a newer Entice than this one."""


class Stale(EnticeError):
    """Somebody else has changed a campaign meanwhile: begin again."""


def not_found(what: str, given: str) -> Refusal:
    """Refuse an id that is unknown, or that the caller may not know of."""
    return Refusal(404, "not-found", f"No such {what}", f"There is no {what} {given!r}.")


def conflict(detail: str, **extra: Any) -> Refusal:
    """Refuse what the present state of things rules out."""
    return Refusal(409, "conflict", "Not possible now", detail, **extra)


def invalid(detail: str, **extra: Any) -> Refusal:
    """Refuse a request that could never be right."""
    return Refusal(422, "invalid", "Not valid", detail, **extra)
