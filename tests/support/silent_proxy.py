"""A TCP proxy in front of PostgreSQL that can stop forwarding while connections stay open."""

from __future__ import annotations

import asyncio
import threading
from typing import Literal, Self
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

Silence = Literal["none", "both", "answers", "commits"]
"""What is not forwarded: nothing; everything; what the server sends; what it sends from the next
COMMIT on."""


class SilentProxy:
    """Forwards connections to the server of a URL, in a thread."""

    def __init__(self, url: str) -> None:
        given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        self._socket = f"{given.pop('host')}/.s.PGSQL.{given.pop('port', '5432')}"
        self._silence: Silence = "none"
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._accept, "127.0.0.1", 0)
        )
        port = self._server.sockets[0].getsockname()[1]
        name, user = given.pop("dbname", "postgres"), given.pop("user", "postgres")
        options = "&".join(f"{key}={quote(value)}" for key, value in given.items() if value)
        self.url = f"postgresql://{user}@127.0.0.1:{port}/{name}?{options}"
        self._wake = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.set_exception_handler(lambda *_: None)  # of cancelled connections
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._server.close()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    def silence(self, what: Silence) -> None:
        """Stop forwarding, or resume and forward what has accumulated."""

        async def change() -> None:
            self._silence = what
            self._wake.set()
            self._wake = asyncio.Event()

        asyncio.run_coroutine_threadsafe(change(), self._loop).result(10)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(self._socket)
        pumps = [self._pump(reader, back, "both"), self._pump(there, writer, "answers")]
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, direction: Silence
    ) -> None:
        try:
            while data := await source.read(65536):
                if self._silence == "commits" and direction == "both" and b"COMMIT\0" in data:
                    self._silence = "answers"
                while self._silence == "both" or self._silence == direction:
                    await self._wake.wait()
                target.write(data)
                await target.drain()
        finally:
            target.close()
