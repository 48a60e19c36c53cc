"""Tells tool servers that a rollout begins and ends, so that they can make and free what it needs (one machine, say).

`rollout.started` is awaited before the first sample, and its failure ends the rollout. `rollout.ended` follows every
`rollout.started` that may have arrived, whatever became of the rollout; it is told in the background and changes
nothing any more.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.spec import ToolServer
from rft.egress.endpoint import Endpoint, Lane, endpoint_key
from rft.egress.endpoint_client import EndpointClient
from rft.egress.redaction import redact
from rft.egress.reply import AttemptFailure, Reply
from rft.tool_gateway.rollout_ends import OpenRollouts, RolloutEnds, is_worth_another_try, may_have_been_taken

log = logging.getLogger(__name__)

STARTED = "rollout.started"
ENDED = "rollout.ended"


@dataclass(frozen=True, slots=True)
class _Host:
    """One callback URL, and the tools that named it."""

    endpoint: Endpoint
    ends: Endpoint
    """The same for `rollout.ended`."""
    tools: tuple[str, ...]
    is_only: bool
    """No other is told of the same rollouts."""

    def call_id(self, kind: str) -> str:
        """Of its own among all hosts, which may be one server that takes no key twice."""
        return kind if self.is_only else f"{kind}.{self.tools[0]}"


class RolloutCallbacks:
    """The callbacks of one job. `headers` are the secret header values by tool name."""

    def __init__(
        self,
        client: EndpointClient,
        tools: Sequence[ToolServer],
        *,
        headers: Mapping[str, Mapping[str, str]] | None = None,
        job_id: str = "",
        open_rollouts: OpenRollouts | None = None,
    ) -> None:
        self._client, self._job_id = client, job_id
        self._hosts = _hosts(tools, headers or {})
        self._ends = RolloutEnds(open_rollouts)

    @property
    def has_hosts(self) -> bool:
        """Whether any tool wants to be told."""
        return bool(self._hosts)

    async def started(self, *, item: JsonObject, trace_id: str) -> Failure | None:
        """Tell all hosts at once; the first failure in the order of the tools. Raises only on cancellation."""
        self._ends.expect(trace_id)
        outcomes = await asyncio.gather(
            *(
                self._post(host, STARTED, self._body(STARTED, host, trace_id, item=item), trace_id)
                for host in self._hosts
            )
        )
        return next((outcome for outcome in outcomes if outcome is not None), None)

    def ended(self, *, trace_id: str, outcome: Grade | Failure | None) -> None:
        """Tell all hosts in the background; None for a cancelled rollout."""
        if self._hosts:
            self._ends.tell(trace_id, outcome, partial(self.tell_end, trace_id=trace_id, outcome=outcome))

    def was_left_open(self, *, trace_id: str, outcome: Grade | Failure | None) -> None:
        """The same for a rollout of an earlier process: behind others of its kind, a few at once."""
        if self._hosts:
            telling = partial(self.tell_end, trace_id=trace_id, outcome=outcome)
            self._ends.tell(trace_id, outcome, telling, is_left=True)

    async def all_told(self, timeout_s: float) -> None:
        """Wait until every end so far is told, at most so long."""
        await self._ends.all_told(timeout_s)

    async def aclose(self, hurry: asyncio.Event | None = None) -> None:
        """Tell what was not told yet, within each call's retry budget; in seconds once `hurry` is set."""
        await self._ends.aclose(hurry)

    async def tell_end(self, *, trace_id: str, outcome: Grade | Failure | None) -> bool:
        """Tell all hosts, and wait for it: whether nothing more is to be told.

        Something is where a host may take it later, and no host that bears no repeated call may have had it.
        """
        told = _outcome(outcome)
        failures = await asyncio.gather(
            *(self._post(host, ENDED, self._body(ENDED, host, trace_id, **told), trace_id) for host in self._hosts)
        )
        for failure in failures:
            if failure is not None:
                log.warning("the end of rollout %s could not be told: %s", trace_id, failure.message)
        is_left = any(failure is not None and is_worth_another_try(failure) for failure in failures)
        return not is_left or any(
            not host.ends.is_safe_to_repeat and (failure is None or may_have_been_taken(failure))
            for host, failure in zip(self._hosts, failures, strict=True)
        )

    async def _post(self, host: _Host, kind: str, body: JsonObject, trace_id: str) -> Failure | None:
        endpoint = host.ends if kind == ENDED else host.endpoint
        try:
            answer = await self._client.post_json(
                endpoint, body, trace_id=trace_id, call_id=host.call_id(kind), read=self._read, owner=self._job_id
            )
        except Exception as error:
            log.exception("%s of %s broke on our side", kind, trace_id)
            message = f"{kind} could not be told by us ({type(error).__name__}: {error})"
            return Failure(
                stage=Stage.TOOL,
                code=FailureCode.INTERNAL_ERROR,
                message=redact(message, endpoint.secrets),
                endpoint=endpoint.name,
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
    is_only = len(by_url) == 1
    return [_host(url, named, tools, headers, is_only=is_only) for url, named in by_url.items()]


def _host(
    url: str,
    named: Sequence[ToolServer],
    tools: Sequence[ToolServer],
    headers: Mapping[str, Mapping[str, str]],
    *,
    is_only: bool,
) -> _Host:
    # A cap of the owner's on calls at this address means all of them, from the first on.
    called_there = [tool for tool in tools if endpoint_key(tool.server_url) == endpoint_key(url)]
    endpoint = Endpoint(
        name=named[0].name,
        stage=Stage.TOOL,
        url=url,
        headers=headers.get(named[0].name, {}),
        timeout_s=named[0].timeout_s,
        is_safe_to_repeat=all(tool.retry == "safe" for tool in named),
        max_concurrency=min((tool.max_concurrency for tool in called_there if tool.max_concurrency), default=None),
        rate_limit=min((tool.rate_limit for tool in called_there if tool.rate_limit), default=None),
    )
    names = tuple(tool.name for tool in named)
    if endpoint.max_concurrency is not None or endpoint.rate_limit is not None:
        return _Host(endpoint, endpoint, names, is_only)
    return _Host(replace(endpoint, lane=Lane.BEGINNINGS), replace(endpoint, lane=Lane.ENDS), names, is_only)
