"""`rft chat`: a conversation with a model in the terminal; the tools of its job are really called."""

import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from rich.text import Text

from rft.platform.cli.answers import Answer
from rft.platform.cli.client import ConnectionLost, PlatformProblem, Sent, json_object
from rft.platform.cli.formats import duration, one_line, printable
from rft.platform.cli.inputs import CannotDo, job_path, part

if TYPE_CHECKING:
    from rft.core.base import JsonObject
    from rft.platform.cli.client import Client
    from rft.platform.cli.session import Session

_SHOWN_CHARS = 2000
"""Of arguments and results."""


class Conversation(Protocol):
    """Says the next words of a conversation."""

    def say(self, messages: "list[JsonObject]") -> "Iterator[JsonObject]":
        """Events as the playground has them; the last one is `end`. Raises PlatformProblem."""
        ...


@dataclass(frozen=True, slots=True)
class JobConversation:
    """A model of a job, with the job's tools."""

    client: "Client"
    job_id: str
    model: str | None
    """None: its best checkpoint."""
    options: "JsonObject"

    def say(self, messages: "list[JsonObject]") -> "Iterator[JsonObject]":
        """What the API tells, event by event."""
        body = cast("JsonObject", {**self.options, "model": self.model, "messages": messages, "stream": True})
        with closing(self.client.post_stream(job_path(self.job_id, "playground"), body)) as sent:
            for message in sent:
                yield _event(message)


@dataclass(frozen=True, slots=True)
class PlainConversation:
    """A model without tools."""

    client: "Client"
    model: str
    options: "JsonObject"

    def say(self, messages: "list[JsonObject]") -> "Iterator[JsonObject]":
        """Chunks of a chat completion as the events of a single turn."""
        asked: JsonObject = {"stream": True, "stream_options": {"include_usage": True}}
        body = cast("JsonObject", {**self.options, **asked, "model": self.model, "messages": messages})
        text, usage, reason = "", Answer({}), "stop"
        with closing(self.client.post_stream("/chat/completions", body)) as sent:
            for message in sent:
                if message.data == "[DONE]":
                    break
                chunk = Answer(_event(message))
                usage = Answer(chunk.get("usage", dict) or usage.raw)
                for choice in map(Answer, chunk.get("choices", list) or []):
                    reason = choice.get("finish_reason", str) or reason
                    if more := choice.get("delta.content", str):
                        text += more
                        yield {"type": "text", "turn": 0, "text": more}
        said: JsonObject = {"role": "assistant", "content": text}
        yield {"type": "turn", "turn": 0, "content": text, "usage": _flat_usage(usage)}
        stop_reason = "max_tokens" if reason == "length" else "completed"
        yield {"type": "end", "conversation": {"messages": [said], "stop_reason": stop_reason, "failure": None}}


@dataclass(slots=True)
class Chat:
    """One conversation and the terminal that it is shown in."""

    here: "Session"
    conversation: Conversation
    messages: "list[JsonObject]" = field(default_factory=list["JsonObject"])
    _told: str = ""
    """Of the text of the present turn."""

    def turn(self, text: str) -> bool:
        """Say something and show what comes of it; whether it ended well. Only then it is kept."""
        asked: list[JsonObject] = [*self.messages, {"role": "user", "content": text}]
        end: Answer | None = None
        self._told = ""
        with closing(cast("_Closable", self.conversation.say(asked))) as told:
            for raw in told:
                event = Answer(raw)
                self._show(event)
                if event.need("type", str) == "end":
                    end = event
        if end is None:
            raise ConnectionLost("the conversation ended in the middle of an answer")
        if end.get("conversation.failure", dict) is not None:
            return False
        added = cast("list[JsonObject]", end.get("conversation.messages", list) or [])
        self.messages = [*asked, *added]
        self._note_why_ended(end.get("conversation.stop_reason", str))
        return True

    def interactively(self) -> None:
        """Until the end of the input. Ctrl-C ends a turn."""
        with suppress(ImportError):
            import_module("readline")  # Lines can be edited and brought back.
        self.here.note("Ctrl-C ends a turn, Ctrl-D the chat.")
        while True:
            try:
                text = input("> " if sys.stdin.isatty() else "").strip()
            except KeyboardInterrupt:
                self.here.err.print()
                continue
            except EOFError:
                return
            if not text:
                continue
            try:
                self.turn(text)
            except KeyboardInterrupt:
                self.here.out.print()
                self.here.note("ended; what you said and this answer are not kept")
            except PlatformProblem as problem:
                self.here.err.print(Text(printable(str(problem)), "red"), soft_wrap=True)

    def _show(self, event: Answer) -> None:
        if self.here.as_json:
            self.here.print_json(event.raw, indent=None)
            return
        match event.need("type", str):
            case "text":
                self._write(event.need("text", str))
            case "turn":
                self._end_turn(event)
            case "call":
                arguments = one_line(event.need("arguments", str), limit=_SHOWN_CHARS)
                self._line(f"-> {one_line(event.need('name', str))} {arguments}", "cyan")
            case "result":
                self._result(event)
            case "failure":
                self._failure(Answer(event.need("failure", dict)))
            case _:
                pass

    def _write(self, text: str) -> None:
        self._told += text
        self.here.out.print(Text(printable(text)), end="", soft_wrap=True)

    def _end_turn(self, event: Answer) -> None:
        content = event.need("content", str)
        if content.startswith(self._told):
            self._write(content[len(self._told) :])
        if self._told:
            self.here.out.print()
        self._told = ""
        if (usage := event.get("usage", dict)) is not None:
            self.here.note(_usage_line(Answer(usage)))

    def _result(self, event: Answer) -> None:
        output = one_line(event.need("output", str), limit=_SHOWN_CHARS)
        took = duration(event.get("latency_s", float))
        code = event.get("error_code", str)
        style = "green" if code is None else "yellow"
        self._line(f"<- {output} ({took if code is None else f'{one_line(code)}, {took}'})", style)

    def _failure(self, failure: Answer) -> None:
        blame = f"{failure.need('stage', str)}, {failure.need('code', str)}, fault: {failure.need('fault', str)}"
        text = f"{one_line(failure.need('message', str), limit=_SHOWN_CHARS)} ({blame})"
        self.here.err.print(Text(text, "red"), soft_wrap=True)

    def _note_why_ended(self, stop_reason: str | None) -> None:
        if stop_reason not in (None, "completed") and not self.here.as_json:
            self.here.note(f"ended: {one_line(stop_reason or '')}")

    def _line(self, text: str, style: str) -> None:
        self.here.out.print(Text(text, style), soft_wrap=True)


class _Closable(Protocol):
    def close(self) -> None: ...

    def __iter__(self) -> "Iterator[JsonObject]": ...


def open_conversation(
    here: "Session", model: str, job_id: str | None, options: "JsonObject", item: "JsonObject | None"
) -> Conversation:
    """`model`: of a model, or a job's id for its best checkpoint. Raises PlatformProblem, CannotDo."""
    with_item: JsonObject = options if item is None else {**options, "item": item}
    if model.startswith("ftjob-"):
        return JobConversation(here.client, model, None, with_item)
    found = Answer(here.client.get(f"/models/{part(model)}"))  # Whom nobody knows is told before anything is said.
    owner = job_id or found.get("fine_tuning_job_id", str)
    if owner is not None:
        return JobConversation(here.client, owner, model, with_item)
    if item is not None:
        raise CannotDo(f"{model} is a base model: name the job whose tools read the item, with --job")
    here.note(f"{model} is a base model, without tools; --job JOB lets it call those of a job")
    return PlainConversation(here.client, model, options)


def _event(message: Sent) -> "JsonObject":
    event = json_object(message.data)
    error = None if event is None else event.get("error")
    if event is None or isinstance(error, dict):
        said = error.get("message") if isinstance(error, dict) else None
        raise PlatformProblem(
            one_line(str(said or "the platform's answer is no event"), limit=_SHOWN_CHARS),
            error if isinstance(error, dict) else None,
        )
    return event


def _flat_usage(usage: Answer) -> "JsonObject":
    return {
        "prompt_tokens": usage.get("prompt_tokens", int) or 0,
        "cached_tokens": usage.get("prompt_tokens_details.cached_tokens", int) or 0,
        "completion_tokens": usage.get("completion_tokens", int) or 0,
        "reasoning_tokens": usage.get("completion_tokens_details.reasoning_tokens", int) or 0,
    }


def _usage_line(usage: Answer) -> str:
    cached, thought = usage.get("cached_tokens", int), usage.get("reasoning_tokens", int)
    prompt = f"{usage.need('prompt_tokens', int):,} tokens in" + (f" ({cached:,} as sampled)" if cached else "")
    return f"{prompt}, {usage.need('completion_tokens', int):,} out" + (f" ({thought:,} thought)" if thought else "")
