"""Both sides of a run's inbox over HTTP: one exchange per call, nothing is tried again here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import quote

from pydantic import ValidationError

from rft.core.base import Record
from rft.core.failure import FailureCode
from rft.core.progress import StageCounts
from rft.egress.client import HttpClient
from rft.egress.endpoint import HeaderList, public_url, to_header_list
from rft.egress.guard import OPERATORS_OWN
from rft.egress.reply import AttemptFailure, SizeCaps
from rft.rollouts.shards.inbox import InboxDown, StaleLaunch, refused
from rft.rollouts.shards.inbox_wire import (
    SHARD_LEASE_S,
    Beat,
    Delivery,
    GiveOut,
    Gone,
    InboxNews,
    Read,
    SealedShard,
    SettledRollout,
    Take,
    Taken,
)

R = TypeVar("R", bound=Record)
_CAPS = SizeCaps(request_bytes=64 << 20, reply_bytes=256 << 20)
_TOO_LARGE = frozenset({FailureCode.OVERSIZE_REQUEST, FailureCode.OVERSIZE_REPLY})
"""No outage: the same call ends so again."""
_CALL_S = 30.0
_INVALID_TOKEN = b"invalid_run_token"
_NOT_NOW = frozenset({404, 408, 425, 429})
"""Statuses of a platform that starts, or of a run whose trainer has not told of it yet."""


def open_inbox_http() -> HttpClient:
    """The connections of one event loop."""
    return HttpClient(OPERATORS_OWN, caps=_CAPS)


@dataclass(frozen=True, slots=True)
class RunAddress:
    """Where a run's inbox is, and what opens it."""

    platform_url: str
    """Without a trailing slash."""
    job_id: str
    token: str = field(repr=False)


class _Connection:
    def __init__(self, address: RunAddress, http: HttpClient) -> None:
        self._url = f"{address.platform_url.rstrip('/')}/internal/runs/{quote(address.job_id, safe='')}"
        self._http = http
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {address.token}"}
        self._headers: HeaderList = to_header_list(headers)

    async def ask(self, method: str, path: str, body: bytes = b"", *, timeout_s: float = _CALL_S) -> bytes:
        """The reply's body. Raises StaleLaunch, InboxDown, and RunPaused when it is refused."""
        reply = await self._http.ask(method, self._url + path, body, headers=self._headers, timeout_s=timeout_s)
        where = f"the platform at {public_url(self._url)}"
        if isinstance(reply, AttemptFailure) and reply.code in _TOO_LARGE:
            raise refused(f"{where}: {reply.message}")
        if isinstance(reply, AttemptFailure):
            raise InboxDown(f"{where} {reply.message}")
        if 200 <= reply.status <= 299:
            return reply.body
        message = f"{where} answered {reply.status}: {reply.body[:300].decode(errors='replace')}"
        if reply.status == 409:
            raise StaleLaunch("Another launch has taken the run over, or it has ended.")
        if reply.status >= 500 or reply.status in _NOT_NOW:
            raise InboxDown(message)
        if reply.status == 401 and _INVALID_TOKEN in reply.body:  # And no proxy's.
            raise StaleLaunch(f"The run's inbox is closed: {message}")
        raise refused(message)

    async def post(self, path: str, request: Record, kind: type[R], *, timeout_s: float = _CALL_S) -> R:
        """The reply, read. Raises as above."""
        return self._read(await self.ask("POST", path, request.model_dump_json().encode(), timeout_s=timeout_s), kind)

    async def get(self, path: str, kind: type[R]) -> R:
        """The reply, read. Raises as above."""
        return self._read(await self.ask("GET", path), kind)

    def _read(self, reply: bytes, kind: type[R]) -> R:
        try:
            return kind.model_validate_json(reply)
        except ValidationError:
            # A proxy's page, say: it may be gone with the next call.
            where, told = public_url(self._url), reply[:300].decode(errors="replace")
            raise InboxDown(f"the platform at {where} answered what is no {kind.__name__}: {told}") from None


class HttpTrainerInbox:
    """A `TrainerInbox`."""

    def __init__(self, address: RunAddress, http: HttpClient) -> None:
        self._connection = _Connection(address, http)

    async def announce(self, run: str) -> None:
        """Tell what workers need to know."""
        await self._connection.ask("PUT", "", run.encode())

    async def give_out(self, shards: Sequence[SealedShard]) -> None:
        """Let workers take these."""
        await self._connection.ask("POST", "/shards", GiveOut(shards=tuple(shards)).model_dump_json().encode())

    async def read(
        self, *, seen: Sequence[int], over: Sequence[str], out: Sequence[str] = (), wait_s: float
    ) -> InboxNews:
        """News, or none after the wait."""
        read = Read(seen=tuple(seen), over=tuple(over), out=tuple(out), wait_s=wait_s)
        return await self._connection.post("/inbox/read", read, InboxNews, timeout_s=wait_s + _CALL_S)

    async def stages(self) -> StageCounts:
        """As workers told last."""
        return await self._connection.get("/stages", StageCounts)


class HttpWorkerInbox:
    """A `WorkerInbox`."""

    def __init__(self, address: RunAddress, http: HttpClient, worker: str) -> None:
        self._connection, self._worker = _Connection(address, http), worker

    async def run(self) -> str:
        """What the trainer told of the run."""
        return (await self._connection.ask("GET", "")).decode()

    async def take(self, *, is_idle: bool) -> Taken:
        """A shard, if there is one."""
        return await self._connection.post("/takes", Take(worker=self._worker, is_idle=is_idle), Taken)

    async def beat(self, shards: Mapping[str, StageCounts], *, is_leaving: bool = False) -> Sequence[str]:
        """Say that the worker lives."""
        beat = Beat(worker=self._worker, shards=tuple(shards), stages=shards, is_leaving=is_leaving)
        return (await self._connection.post("/beats", beat, Gone, timeout_s=SHARD_LEASE_S)).shards

    async def deliver(self, rollouts: Sequence[SettledRollout]) -> Sequence[str]:
        """Hand over."""
        delivery = Delivery(worker=self._worker, rollouts=tuple(rollouts))
        return (await self._connection.post("/inbox", delivery, Gone)).shards
