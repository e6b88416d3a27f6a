"""The reproduction of the paper that a demo keeps running."""

from __future__ import annotations

import contextlib
import http.client
import threading
from urllib.request import Request, urlopen

import msgspec

from entice.progress import Report, report_compilation


class _Line(msgspec.Struct):
    kind: str = "queued"
    done: int | None = None
    total: int | None = None
    title: str = ""
    detail: str = ""


_decode = msgspec.json.Decoder(_Line).decode


class ReproductionReader:
    """Reads the service's reproduction of the paper in a thread, from its start to its end.

    The service runs it only while a client reads it.
    """

    def __init__(self, url: str, key: str) -> None:
        self._latest = _Line()
        request = Request(f"{url}/v1/paper", headers={"Authorization": f"Bearer {key}"})
        self._thread = threading.Thread(target=self._read, args=(request,), daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the reproduction has not ended yet."""
        return self._thread.is_alive()

    def show(self, report: Report) -> None:
        """Report the current progress."""
        line = self._latest
        if line.done is not None and line.total is not None:
            (report if line.kind == "progress" else report_compilation)(line.done, line.total)

    def result(self) -> str:
        """Return a sentence about how the reproduction ended."""
        if self._latest.kind == "paper":
            return "The paper is reproduced: see the Paper screen."
        reason = f"{self._latest.title}: {self._latest.detail} " if self._latest.title else ""
        return f"The reproduction of the paper failed. {reason}The Paper screen can try again."

    def _read(self, request: Request) -> None:
        # The connection is lost when the demo is stopped, maybe within a line.
        lost = OSError, http.client.HTTPException, msgspec.DecodeError
        with contextlib.suppress(*lost), urlopen(request) as lines:
            for line in lines:
                self._latest = _decode(line)
