"""One conversation of the playground, told as it goes."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from rft.core.base import JsonObject
from rft.core.failure import Failure
from rft.core.messages import CallMistake, Message, Role, ToolCall, ToolResult
from rft.core.rollout import StopReason
from rft.platform.api.errors import ApiError
from rft.platform.serving.answering import Asker, counted
from rft.platform.serving.playground.order import PlaygroundOrder
from rft.platform.serving.playground.schemas import (
    CallEvent,
    EndEvent,
    FailureEvent,
    PlaygroundEvent,
    PlaygroundFailure,
    PlaygroundObject,
    PlaygroundUsage,
    ResultEvent,
    TextEvent,
    TurnEvent,
)
from rft.platform.serving.playground.turn_text import TurnText
from rft.platform.serving.served_policy import ServedPolicy
from rft.platform.serving.service import events
from rft.platform.serving.told import ToldSoFar
from rft.rollouts.chat_policy import ChatTurn, ChatUsage
from rft.rollouts.connections import CustomerConnections, open_tool_connections
from rft.rollouts.message_rollout import MessageRollout, MessageSetup, run_message_rollout
from rft.serving_wire.records import CompletionRequest, Event, Text

_UNANSWERED = "Error: this call has no answer: the conversation had ended."
_MODEL_WAIT_S = 60.0
"""How long a turn waits for a model that cannot answer yet: somebody is looking."""


@dataclass(slots=True)
class Playing:
    """Runs a conversation and tells of it."""

    order: PlaygroundOrder
    asker: Asker
    _told: "asyncio.Queue[PlaygroundEvent | None]" = field(default_factory=lambda: asyncio.Queue())
    _turn: int = 0
    _text: TurnText = field(default_factory=TurnText)
    """Of that turn."""

    async def events(self) -> AsyncGenerator[PlaygroundEvent]:
        """Up to the end. Closed early, the conversation is given up, and its tool servers are told."""
        running = asyncio.create_task(self._run(), name="playground")
        try:
            while (event := await self._told.get()) is not None:
                yield event
            await running
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def _run(self) -> None:
        try:
            connections = await open_tool_connections(self.order.spec, self.order.secrets)
            try:
                rollout = await self._rollout(connections)
            finally:
                hurry = asyncio.Event()
                hurry.set()
                await asyncio.shield(connections.aclose(hurry))
            self._end(rollout)
        finally:
            self._told.put_nowait(None)

    async def _rollout(self, connections: CustomerConnections) -> MessageRollout:
        order = self.order
        setup = MessageSetup(
            tools=connections.tools,
            has_tool_servers=bool(order.spec.tools),
            grader=None,
            grader_name="",
            budgets=order.spec.budgets,
            model_name=order.name,
            host=connections.host,
            policy=ServedPolicy(order.name, order.model, self._sample, wait_s=_MODEL_WAIT_S),
            sampling=order.sampling,
            clock=time.monotonic,
            on_said=self._said,
            on_results=self._results,
        )
        return await run_message_rollout(order.row, setup)

    async def _sample(self, request: CompletionRequest) -> AsyncGenerator[Event]:
        """A turn, or another attempt at it; its text is told as it comes, its tokens are counted."""
        self._text.begin()
        order, told = self.order, ToldSoFar(model=self.order.name)
        streamed = request.model_copy(update={"is_streamed": True})
        asked = counted(events(self.asker.processes, order.model, streamed), self.asker, told)
        async with aclosing(asked):
            async for event in asked:
                if isinstance(event, Text) and (more := self._text.more(event.text)):
                    self._told.put_nowait(TextEvent(turn=self._turn, text=more))
                yield event

    def _said(self, said: ChatTurn, calls: Sequence[ToolCall]) -> None:
        usage = None if said.usage is None else _usage(said.usage)
        reasoning = said.reasoning or None
        turn = TurnEvent(turn=self._turn, content=said.content, reasoning_content=reasoning, usage=usage)
        self._told.put_nowait(turn)
        for call in calls:
            event = CallEvent(turn=self._turn, call_id=call.call_id, name=call.name, arguments=call.arguments)
            self._told.put_nowait(event)

    def _results(self, results: Sequence[ToolResult]) -> None:
        for result in results:
            event = ResultEvent(
                turn=self._turn,
                call_id=result.call_id,
                name=result.name,
                output=result.output or "",
                error_code=result.error_code,
                status=result.status,
                attempts=result.attempts,
                latency_s=result.latency_s,
            )
            self._told.put_nowait(event)
        self._turn, self._text = self._turn + 1, TurnText()

    def _end(self, rollout: MessageRollout) -> None:
        failure = PlaygroundFailure.of(rollout.outcome) if isinstance(rollout.outcome, Failure) else None
        if failure is not None:
            self._told.put_nowait(FailureEvent(failure=failure))
        added = rollout.messages[len(self.order.row.messages) :]
        if failure is None:
            self._tell_unanswered(unanswered_calls(added), rollout.stop_reason)
        conversation = PlaygroundObject(
            id=rollout.trace_id,
            model=self.order.name,
            messages=[to_wire_message(message) for message in fit_to_be_sent_back(added)],
            stop_reason=rollout.stop_reason,
            failure=failure,
            usage=_usage(rollout.usage),
            duration_s=rollout.duration_s,
        )
        self._told.put_nowait(EndEvent(conversation=conversation))

    def _tell_unanswered(self, calls: Sequence[ToolCall], stop_reason: StopReason | None) -> None:
        """Whoever watches would take them for calls that are still on their way."""
        code = CallMistake.BUDGET_USED_UP if stop_reason is StopReason.MAX_TOOL_CALLS else None
        for call in calls:
            event = ResultEvent(
                turn=self._turn,
                call_id=call.call_id,
                name=call.name,
                output=_UNANSWERED,
                error_code=code,
                status=None,
                attempts=0,
                latency_s=0.0,
            )
            self._told.put_nowait(event)


async def played(told: AsyncGenerator[PlaygroundEvent]) -> PlaygroundObject:
    """The whole conversation."""
    async with aclosing(told):
        async for event in told:
            if isinstance(event, EndEvent):
                return event.conversation
    raise ApiError("The conversation ended without a word.", code="internal_error")


def unanswered_calls(added: Sequence[Message]) -> Sequence[ToolCall]:
    """Those that the conversation ended on."""
    return added[-1].tool_calls if added else ()


def fit_to_be_sent_back(added: Sequence[Message]) -> list[Message]:
    """With an answer to each call that has none: nothing goes on after calls without one."""
    calls = unanswered_calls(added)
    return [*added, *(Message(role=Role.TOOL, content=_UNANSWERED, tool_call_id=call.call_id) for call in calls)]


def to_wire_message(message: Message) -> JsonObject:
    """As chat completions have it."""
    shown: JsonObject = {"role": message.role.value, "content": message.content}
    if message.reasoning_content:
        shown["reasoning_content"] = message.reasoning_content
    if message.tool_calls:
        shown["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        shown["tool_call_id"] = message.tool_call_id
    return shown


def _usage(usage: ChatUsage) -> PlaygroundUsage:
    return PlaygroundUsage(
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        completion_tokens=usage.completion_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )
