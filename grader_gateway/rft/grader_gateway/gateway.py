"""Grades over HTTP. A score is a finite number or the grade does not exist: nothing else ever becomes a reward."""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import SAMPLE_PARSE_ERROR, Grade
from rft.core.graders import EndpointGrader
from rft.egress.endpoint import Endpoint
from rft.egress.endpoint_client import EndpointClient, encode_json
from rft.egress.redaction import redact
from rft.egress.reply import AttemptFailure, Reply
from rft.grader_gateway.builtin.guarded import invalid
from rft.grader_gateway.contract import (
    read_score,
    shorten_messages,
    shorten_outputs,
    shown_reply,
    shown_request,
    to_wire,
    without_answer,
    without_messages,
    without_prompt,
)

_log = logging.getLogger(__name__)
_SHORT_ANSWER_BYTES = 3_000
"""A thousand characters, as they stand in texts, choices and trace."""
_OUTPUT_CHARS_WHEN_TOO_LARGE = (20_000, 2_000, 200)
_CALL_ID = "grade"
TOLD_WITHIN_S = 60.0
"""For all attempts of a call whose score changes nothing: the rollout would wait for it."""


@dataclass(frozen=True, slots=True)
class _Scored:
    """A usable reply."""

    score: float
    reply: str


class HttpGraderGateway:
    """The endpoint grader of one job. `headers` are its secret header values."""

    def __init__(
        self,
        client: EndpointClient,
        grader: EndpointGrader,
        *,
        headers: Mapping[str, str] | None = None,
        job_id: str = "",
        part: str | None = None,
    ) -> None:
        """`part`: its variable inside a multi grader, whose calls for one rollout must differ in their key."""
        self._client, self._job_id, self._invalid_grade = client, job_id, grader.grade_of_invalid
        self._call_id = _CALL_ID if part is None else f"{_CALL_ID}.{part}"
        self._endpoint = Endpoint(
            name=grader.name,
            stage=Stage.GRADER,
            url=grader.url,
            headers=headers or {},
            timeout_s=grader.timeout_s,
            max_concurrency=grader.max_concurrency,
            rate_limit=grader.rate_limit,
        )

    async def grade(self, trace: FinishedTrace, *, item: JsonObject, trace_id: str) -> Grade | Failure:
        """The verdict on one finished rollout, or why there is none. Raises only on cancellation."""
        return await self._grade_or_blame(to_wire(trace, item=item, trace_id=trace_id), trace_id)

    async def tell(self, trace: FinishedTrace, *, item: JsonObject, trace_id: str) -> Grade | Failure:
        """`grade`, of an answer whose grade stands whatever is said, within `TOLD_WITHIN_S`: nobody waits longer."""
        started_s = time.monotonic()
        try:
            async with asyncio.timeout(TOLD_WITHIN_S):
                return await self.grade(trace, item=item, trace_id=trace_id)
        except TimeoutError:
            name = self._endpoint.name
            return Failure(
                stage=Stage.GRADER,
                code=FailureCode.TIMEOUT,
                message=f"grader {name!r} said nothing within {TOLD_WITHIN_S:g} s of an answer whose grade stands",
                endpoint=name,
                elapsed_s=time.monotonic() - started_s,
            )

    async def _grade_or_blame(self, body: JsonObject, trace_id: str) -> Grade | Failure:
        try:
            return await self._grade(body, trace_id)
        except Exception as error:
            _log.exception("the grade of %s broke on our side", trace_id)
            message = f"grader {self._endpoint.name!r} could not be called by us ({type(error).__name__}: {error})"
            return Failure(
                stage=Stage.GRADER,
                code=FailureCode.INTERNAL_ERROR,
                message=redact(message, self._endpoint.secrets),
                endpoint=self._endpoint.name,
                attempts=0,
            )

    async def _grade(self, body: JsonObject, trace_id: str) -> Grade | Failure:
        fitting, encoded = self._fitting(body)
        answer = await self._client.post_json(
            self._endpoint,
            encoded,
            trace_id=trace_id,
            call_id=self._call_id,
            read=self._read,
            owner=self._job_id,
        )
        if isinstance(answer, Failure):
            is_too_long = answer.code is FailureCode.OVERSIZE_REQUEST and self._has_room(without_answer(fitting))
            return self._too_long(answer.message) if is_too_long else answer
        return Grade(
            reward=answer.value.score,
            scores={self._endpoint.name: answer.value.score},
            request=shown_request(encode_json(without_messages(fitting)), self._endpoint.secrets),
            reply=answer.value.reply,
            grader=self._endpoint.name,
            latency_s=answer.elapsed_s,
            attempts=answer.attempts,
        )

    def _fitting(self, body: JsonObject) -> tuple[JsonObject, bytes]:
        """The body within the size cap, and encoded; as little is cut as it takes. The smallest where none fits."""
        fitting, encoded, shorter = body, encode_json(body), _shorter(body)
        while len(encoded) > self._client.http.caps.request_bytes and (cut := next(shorter, None)) is not None:
            fitting, encoded = cut, encode_json(cut)
        return fitting, encoded

    def _has_room(self, body: JsonObject) -> bool:
        """Whether a short answer would fit into it."""
        return len(encode_json(body)) + _SHORT_ANSWER_BYTES <= self._client.http.caps.request_bytes

    def _too_long(self, problem: str) -> Grade:
        """Of an answer that does not fit beside its row: to leave it out of the training would reward its length."""
        details = f"the answer is too long to be sent: {problem}"
        grade = invalid(self._endpoint.name, self._invalid_grade, SAMPLE_PARSE_ERROR, details)
        return grade.model_copy(update={"attempts": 0})

    def _read(self, reply: Reply) -> _Scored | AttemptFailure:
        if reply.status >= 400:
            failure = self._client.http.status_failure(reply)
            assert failure is not None
            return failure
        score = read_score(reply)
        return score if isinstance(score, AttemptFailure) else _Scored(score, shown_reply(reply))


def _shorter(body: JsonObject) -> Iterator[JsonObject]:
    """Tool outputs and thoughts; where that is not enough what the row holds, too, and as little of the others; at last
    whatever was said on the way."""
    with_prompt = [body]
    for max_chars in _OUTPUT_CHARS_WHEN_TOO_LARGE:
        with_prompt.append(shorten_outputs(body, max_chars=max_chars))
        yield with_prompt[-1]
    smallest = body
    for one in with_prompt:
        smallest = without_prompt(one, max_chars=_OUTPUT_CHARS_WHEN_TOO_LARGE[-1])
        yield smallest
    for max_chars in _OUTPUT_CHARS_WHEN_TOO_LARGE:
        yield shorten_messages(smallest, max_chars=max_chars)
