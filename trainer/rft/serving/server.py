"""A local socket on which completions are asked for: one request a connection, events until it is answered."""

import asyncio
import hmac
import logging
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import ValidationError

from rft.serving.completions import Completions
from rft.serving_wire.lines import LONGEST_LINE_BYTES, read_line, write_line
from rft.serving_wire.records import ASKED, CompletionRequest, Done, Event, GiveWay, Refused, ServingSpec

_LOG = logging.getLogger(__name__)
_BUSY_RETRY_AFTER_S = 2.0


@dataclass(slots=True)
class CompletionServer:
    """Listens from `start` on; `run` returns once nobody has asked for `idle_s`, or after `stop`.

    After `GiveWay` it returns as soon as nobody is being answered.
    """

    spec: ServingSpec
    completions: Completions
    answering: int = 0
    """Requests being answered now."""
    unfinished: int = 0
    """Of these, those whose last event is not told yet. A client that has read it may ask again at once."""
    gives_way: bool = False
    """Its memory is wanted."""
    _heard: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever a request comes or ends."""
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _connections: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _server: asyncio.Server | None = None

    async def start(self) -> int:
        """The port, on the loopback address only."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=LONGEST_LINE_BYTES)
        return int(self._server.sockets[0].getsockname()[1])

    async def run(self) -> None:
        """Until it is idle for too long, or stopped; then nothing is answered any more."""
        stopped = asyncio.ensure_future(self._stopped.wait())
        while not stopped.done():
            self._heard.clear()
            heard = asyncio.ensure_future(self._heard.wait())
            idle_s = 0.0 if self.gives_way else self.spec.idle_s
            patience_s = None if self.answering else idle_s
            done, _ = await asyncio.wait((stopped, heard), timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            heard.cancel()
            if not done and not self.answering:
                break
        stopped.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def stop(self) -> None:
        """End `run`; for signals."""
        self._stopped.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # Nobody reads this any more, or we are stopping.
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await read_line(reader)
        if line is None:
            return
        try:
            request = ASKED.validate_json(line)
        except ValidationError as error:
            _LOG.error("a request that is none: %s", error.errors(include_input=False)[0])
            return
        if not hmac.compare_digest(request.token.encode(), self.spec.token.encode()):
            _LOG.error("a request with a wrong token")
            return
        if isinstance(request, GiveWay):
            self.gives_way = True
            self._heard.set()
            return
        if self.unfinished >= self.spec.requests_at_once:
            await write_line(writer, _busy(self.unfinished))
            return
        self.answering += 1
        self._heard.set()
        try:
            await self._answer(request, reader, writer)
        finally:
            self.answering -= 1
            self._heard.set()

    async def _answer(
        self, request: CompletionRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        self.unfinished += 1
        is_finished = False

        def finish() -> None:
            nonlocal is_finished
            self.unfinished -= not is_finished
            is_finished = True

        def tell(event: Event) -> None:
            if isinstance(event, Done | Refused):
                finish()
            events.put_nowait(event)

        async def produce() -> None:
            try:
                await self.completions.answer(request, tell)
            except Exception as error:
                _LOG.exception("a request broke")
                tell(Refused(kind="broken", code="internal_error", message=f"{type(error).__name__}"))
            finally:
                events.put_nowait(None)

        async def consume() -> None:
            while (event := await events.get()) is not None:
                await write_line(writer, event)

        # The client says nothing more: what ends this is that it hangs up.
        hung_up = asyncio.ensure_future(reader.read(1))
        producing, consuming = asyncio.ensure_future(produce()), asyncio.ensure_future(consume())
        try:
            await asyncio.wait((consuming, hung_up), return_when=asyncio.FIRST_COMPLETED)
        finally:
            finish()
            for task in (producing, consuming, hung_up):
                task.cancel()
            await asyncio.gather(producing, consuming, hung_up, return_exceptions=True)


def _busy(answering: int) -> Refused:
    return Refused(
        kind="unavailable",
        code="serving_busy",
        message=f"{answering} requests are being answered, as many as may be at a time; try again.",
        retry_after_s=_BUSY_RETRY_AFTER_S,
    )
