"""Errors of the service."""

from __future__ import annotations

from typing import Any

from entice.errors import EnticeError


class Refusal(EnticeError):
    """A rejected request, as an RFC 9457 problem.

    The request has changed nothing, except that it may have expired an offer past its deadline.
    """

    def __init__(self, status: int, kind: str, title: str, detail: str, **extra: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        """The end of the problem's type, `urn:entice:problem:<kind>`, for programs to test."""
        self.title = title
        self.detail = detail
        self.extra = extra

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.status, self.kind, self.title, self.detail)
        return Refusal, arguments, {"extra": self.extra}


class NotReady(Refusal):
    """A request for a campaign whose policy is not compiled yet, just after start-up."""

    def __init__(self, policy: str, retry_after: int) -> None:
        detail = (
            f"The service has just started and the policy {policy} is not compiled yet. Retry in a "
            "few seconds; /readyz returns 200 once all policies are compiled."
        )
        super().__init__(503, "not-ready", "Not ready", detail)
        self.retry_after = retry_after
        """Seconds."""


class Unavailable(EnticeError):
    """The database cannot be reached or written at the moment.

    Usually nothing was changed. If a connection broke during a commit, the outcome is unknown:
    retrying with the same idempotency key executes the request exactly once.
    """


class Corrupt(EnticeError):
    """The database is damaged. Requests that need the damaged data fail until it is restored."""


class DamagedCampaign(Corrupt):
    """The row of one campaign is damaged. The others are served."""


class SchemaTooNew(EnticeError):
    """The database was written by a newer version of Entice."""


class Stale(EnticeError):
    """Another process has changed the campaign in the meantime: retry the transaction."""


def not_found(what: str, given: str) -> Refusal:
    """Return the error for an id that is unknown, or that the key may not access."""
    return Refusal(404, "not-found", f"No such {what}", f"There is no {what} {given!r}.")


def conflict(detail: str, **extra: Any) -> Refusal:
    """Return the error for a request that the current state does not allow."""
    return Refusal(409, "conflict", "Not possible now", detail, **extra)


def invalid(detail: str, **extra: Any) -> Refusal:
    """Return the error for a request that is invalid in any state."""
    return Refusal(422, "invalid", "Invalid request", detail, **extra)
