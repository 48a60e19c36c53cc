"""Asks a judge model behind any OpenAI-compatible chat-completions server.

An answer that cannot be read is asked for again within the retry budget; what still cannot be read is a failure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.chat_completion import (
    as_object,
    completions_url,
    first_choice,
    is_context_full,
    parse_completion,
    read_usage,
    refusal_text,
    text_of,
)
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.foreign_json import encodable
from rft.core.grade import TokenUsage
from rft.core.graders import JudgeMessage, JudgeServer, SamplingParams
from rft.egress.endpoint import Endpoint
from rft.egress.endpoint_client import Answer, EndpointClient, encode_json
from rft.egress.redaction import redact
from rft.egress.reply import AttemptFailure, Reply
from rft.grader_gateway.contract import shorten_reply, shown_request
from rft.grader_gateway.judge_answer import UNREADABLE, Unreadable, show

T = TypeVar("T")

REFUSED = "model_grader_refusal_error"
CUT_OFF = "model_grader_exceeded_max_tokens_error"
"""`Failure.detail` of answers that hold no verdict, as `UNREADABLE`: names of the contract."""
TOO_LONG = "too_long_for_the_judge"
"""`Failure.detail` of a question that is longer than the judge's context."""

_SCHEMA_REFUSALS = (400, 415, 422)
"""What servers answer that do not know `response_format`."""
_THOUGHT_OPEN, _THOUGHT_CLOSE = "<think>", "</think>"
"""As servers hand thoughts out that do not tell them apart."""
_ANSWER_OPEN = ("{", "```")
"""What begins so is no thought, and may quote its mark."""


@dataclass(frozen=True, slots=True)
class Verdict(Generic[T]):
    """What the judge said, read, and what it took."""

    value: T
    usage: TokenUsage
    """Of all attempts: unreadable answers were paid for, too."""
    attempts: int
    latency_s: float
    request: str
    """What it was sent last, shortened."""
    reply: str
    """Its words, shortened."""


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """One thing to ask a judge."""

    model: str
    messages: Sequence[JudgeMessage]
    answer_name: str
    answer_schema: JsonObject
    """JSON Schema of the answer, for servers that hold models to one."""
    read: Callable[[str], T | Unreadable]
    sampling: SamplingParams = field(default_factory=SamplingParams)


class Judge:
    """The judge's server as one grader of one job calls it. `api_key` is secret."""

    def __init__(
        self, client: EndpointClient, server: JudgeServer, *, api_key: str | None, name: str, job_id: str = ""
    ) -> None:
        self._client, self._job_id = client, job_id
        self._takes_schema = True
        self._endpoint = Endpoint(
            name=name,
            stage=Stage.GRADER,
            url=completions_url(server.base_url),
            headers={} if api_key is None else {"Authorization": f"Bearer {api_key}"},
            timeout_s=server.timeout_s,
            max_concurrency=server.max_concurrency,
        )

    async def ask(self, question: Question[T], *, trace_id: str, call_id: str) -> Verdict[T] | Failure:
        """The verdict, or why there is none after all retries; either tells every token."""
        reader = _Reader(question.read, self._client)
        outcome = await self._ask_as_able(question, reader, trace_id, call_id)
        if isinstance(outcome, Failure) and reader.usage != TokenUsage():
            return outcome.model_copy(update={"usage": {question.model: reader.usage}})
        return outcome

    async def _ask_as_able(
        self, question: Question[T], reader: "_Reader[T]", trace_id: str, call_id: str
    ) -> Verdict[T] | Failure:
        """With a schema, unless the server knows none."""
        has_schema = self._takes_schema
        outcome = await self._ask(question, reader, trace_id, call_id, has_schema=has_schema)
        if not has_schema or not isinstance(outcome, Failure) or outcome.status not in _SCHEMA_REFUSALS:
            return outcome
        if outcome.detail == TOO_LONG:  # Refused for another reason than the schema.
            return outcome
        plain = await self._ask(question, reader, trace_id, f"{call_id}.plain", has_schema=False)
        if isinstance(plain, Failure) and plain.code is not FailureCode.INVALID_SCORE:
            return outcome
        self._takes_schema = False
        return plain

    async def _ask(
        self, question: Question[T], reader: "_Reader[T]", trace_id: str, call_id: str, *, has_schema: bool
    ) -> Verdict[T] | Failure:
        body = encode_json(_to_wire(question, has_schema=has_schema))
        answer = await self._client.post_json(
            self._endpoint,
            body,
            trace_id=trace_id,
            call_id=call_id,
            read=reader.read,
            owner=self._job_id,
        )
        if isinstance(answer, Answer):
            request = shown_request(body, self._endpoint.secrets)
            return Verdict(answer.value, reader.usage, answer.attempts, answer.elapsed_s, request, reader.reply)
        if reader.is_too_long and answer.code is FailureCode.REJECTED:
            return answer.model_copy(update={"detail": TOO_LONG})
        is_about_answer = answer.code is FailureCode.INVALID_SCORE
        return answer.model_copy(update={"detail": reader.detail}) if is_about_answer else answer


@dataclass(slots=True)
class _Reader(Generic[T]):
    """Reads the replies of one question, attempt after attempt."""

    read_text: Callable[[str], T | Unreadable]
    client: EndpointClient
    usage: TokenUsage = field(default_factory=TokenUsage)
    detail: str = UNREADABLE
    is_too_long: bool = False
    """Whether the server said last that the question is longer than the model's context."""
    reply: str = ""

    def read(self, reply: Reply) -> T | AttemptFailure:
        self.is_too_long = False
        if reply.status >= 400:
            failure = self.client.http.status_failure(reply)
            assert failure is not None
            code, _, message = refusal_text(reply.body)
            self.is_too_long = is_context_full(code, message)
            return failure
        completion = parse_completion(reply.body)
        if completion is None:
            message = "answered something that is no chat completion"
            return AttemptFailure(FailureCode.INVALID_REPLY, message, status=reply.status)
        self.usage += read_usage(completion)
        text = read_text(completion)
        outcome = text if isinstance(text, Unreadable) else self.read_text(without_thought(text))
        if not isinstance(outcome, Unreadable):
            self.reply = "" if isinstance(text, Unreadable) else shorten_reply(redact(text, reply.secrets))
            return outcome
        self.detail = outcome.detail
        return AttemptFailure(FailureCode.INVALID_SCORE, outcome.message, status=reply.status)


def _to_wire(question: Question[T], *, has_schema: bool) -> JsonObject:
    body: JsonObject = {
        "model": question.model,
        "messages": [{"role": _role(message.role), "content": message.content} for message in question.messages],
        **question.sampling.model_dump(exclude_none=True),
    }
    if has_schema:
        schema: JsonObject = {"name": question.answer_name, "strict": True, "schema": question.answer_schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _role(role: str) -> str:
    # Few open models' templates know `developer`, and the servers that do take `system` for it.
    return "system" if role == "developer" else role


def with_instruction(messages: Sequence[JudgeMessage], instruction: str) -> tuple[JudgeMessage, ...]:
    """The messages with the platform's own words about the answer's form: templates allow one system message, first."""
    if messages and messages[0].role in ("system", "developer"):
        first = messages[0].model_copy(update={"content": f"{messages[0].content}\n\n{instruction}"})
        return (first, *messages[1:])
    return (JudgeMessage(role="system", content=instruction), *messages)


def read_text(completion: Mapping[str, JsonValue]) -> str | Unreadable:
    """What the judge wrote, or why that is no answer."""
    choice = first_choice(completion)
    message = as_object(choice.get("message"))
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        return Unreadable(f"refused to judge: {show(refusal)}", REFUSED)
    if choice.get("finish_reason") == "content_filter":
        return Unreadable("refused to judge: its content filter stopped it", REFUSED)
    text = encodable(text_of(message.get("content")))
    if choice.get("finish_reason") == "length":
        return Unreadable("ran out of tokens before its verdict; raise max_completions_tokens", CUT_OFF)
    return text if text.strip() else Unreadable("gave an empty answer")


def without_thought(text: str) -> str:
    """What follows the thought that a text begins with: a verdict that was weighed there is not the one given.

    Templates of some models write the opening mark at the prompt's end, so that only the closing one is in the answer.
    """
    begin = text.lstrip()
    is_thought = begin.startswith(_THOUGHT_OPEN) or (_THOUGHT_CLOSE in text and not begin.startswith(_ANSWER_OPEN))
    return text.partition(_THOUGHT_CLOSE)[2] if is_thought else text
