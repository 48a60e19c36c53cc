"""Tells tool servers that a rollout begins and ends, so that they can make and free what it needs (one machine, say).

`rollout.started` is awaited before the first sample, and its failure ends the rollout. `rollout.ended` follows every
`rollout.started` that may have arrived, whatever became of the rollout; it is told in the background and changes
nothing any more. Who keeps a book of the open rollouts can tell the ends that a killed process never told.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.spec import ToolServer
from rft.egress.endpoint import Endpoint
from rft.egress.endpoint_client import EndpointClient
from rft.egress.last_words import last_words
from rft.egress.reply import AttemptFailure, Reply

log = logging.getLogger(__name__)

STARTED = "rollout.started"
ENDED = "rollout.ended"


class OpenRollouts(Protocol):
    """Remembers whose beginning was told and whose end was not."""

    def begin(self, trace_id: str) -> None:
        """Its beginning is about to be told."""
        ...

    def close(self, trace_id: str) -> None:
        """Its end was told, or could not be told within the retry budget."""
        ...


@dataclass(frozen=True, slots=True)
class _Host:
    """One callback URL, and the tools that named it."""

    endpoint: Endpoint
    tools: tuple[str, ...]


class RolloutCallbacks:
    """The callbacks of one job. `headers` are the secret header values by tool name."""

    def __init__(
        self,
        client: EndpointClient,
        tools: Sequence[ToolServer],
        *,
        headers: Mapping[str, Mapping[str, str]] | None = None,
        job_id: str = "",
        book: OpenRollouts | None = None,
    ) -> None:
        self._client, self._job_id, self._book = client, job_id, book
        self._hosts = _hosts(tools, headers or {})
        self._ends: set[asyncio.Task[None]] = set()
        """Ends on their way."""

    @property
    def has_hosts(self) -> bool:
        """Whether any tool wants to be told."""
        return bool(self._hosts)

    async def started(self, *, item: JsonObject, trace_id: str) -> Failure | None:
        """Tell all hosts at once; the first failure in the order of the tools. Raises only on cancellation."""
        if self._book is not None:
            self._book.begin(trace_id)
        outcomes = await asyncio.gather(
            *(
                self._post(host, self._body(STARTED, host, trace_id, item=item), trace_id, STARTED)
                for host in self._hosts
            )
        )
        return next((outcome for outcome in outcomes if outcome is not None), None)

    def ended(self, *, trace_id: str, outcome: Grade | Failure | None) -> None:
        """Tell all hosts in the background; None for a cancelled rollout."""
        if self._hosts:
            task = asyncio.create_task(self._tell_end(trace_id, _outcome(outcome)))
            self._ends.add(task)
            task.add_done_callback(self._ends.discard)

    async def all_told(self, timeout_s: float) -> None:
        """Wait until every end so far is told, at most so long."""
        if self._ends:
            await asyncio.wait(self._ends, timeout=timeout_s)

    async def aclose(self, hurry: asyncio.Event | None = None) -> None:
        """Tell what was not told yet, within each call's retry budget; in seconds once `hurry` is set."""
        late = await last_words(self._ends, hurry)
        if late:
            log.warning("%d ends of rollouts could not be told to their tool servers", late)

    async def _tell_end(self, trace_id: str, outcome: JsonObject) -> None:
        failures = await asyncio.gather(
            *(self._post(host, self._body(ENDED, host, trace_id, **outcome), trace_id, ENDED) for host in self._hosts)
        )
        for failure in failures:
            if failure is not None:
                log.warning("the end of rollout %s could not be told: %s", trace_id, failure.message)
        if self._book is not None:
            self._book.close(trace_id)

    async def _post(self, host: _Host, body: JsonObject, trace_id: str, call_id: str) -> Failure | None:
        try:
            answer = await self._client.post_json(
                host.endpoint, body, trace_id=trace_id, call_id=call_id, read=self._read, owner=self._job_id
            )
        except Exception as error:
            log.exception("%s of %s broke on our side", call_id, trace_id)
            return Failure(
                stage=Stage.TOOL,
                code=FailureCode.INTERNAL_ERROR,
                message=f"{call_id} could not be told by us ({type(error).__name__}: {error})",
                endpoint=host.endpoint.name,
                attempts=0,
            )
        return answer if isinstance(answer, Failure) else None

    def _read(self, reply: Reply) -> bool | AttemptFailure:
        """Any 2xx will do, whatever it says."""
        return self._client.http.status_failure(reply) or True

    def _body(self, kind: str, host: _Host, trace_id: str, **more: JsonValue) -> JsonObject:
        return {"type": kind, "trace_id": trace_id, "job_id": self._job_id, "tools": list(host.tools), **more}


def _outcome(outcome: Grade | Failure | None) -> JsonObject:
    match outcome:
        case Grade():
            return {"outcome": "graded", "reward": outcome.reward, "failure_code": None}
        case Failure():
            return {"outcome": "failed", "reward": None, "failure_code": outcome.code.value}
        case None:
            return {"outcome": "cancelled", "reward": None, "failure_code": None}


def _hosts(tools: Sequence[ToolServer], headers: Mapping[str, Mapping[str, str]]) -> list[_Host]:
    """One per distinct URL, with the headers and the deadline of the first tool that names it."""
    by_url: dict[str, list[ToolServer]] = {}
    for tool in tools:
        if tool.callback_url is not None:
            by_url.setdefault(tool.callback_url, []).append(tool)
    return [
        _Host(
            Endpoint(
                name=named[0].name,
                stage=Stage.TOOL,
                url=url,
                headers=headers.get(named[0].name, {}),
                timeout_s=named[0].timeout_s,
                is_safe_to_repeat=all(tool.retry == "safe" for tool in named),
            ),
            tuple(tool.name for tool in named),
        )
        for url, named in by_url.items()
    ]
