"""A response as numbered events, in the order in which the official SDK puts them together. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from rft.platform.api.errors import ApiError
from rft.platform.serving.responses.reply import ResponseReply, has_message
from rft.platform.serving.responses.schemas import (
    FunctionCallItem,
    OutputItem,
    OutputMessage,
    OutputText,
    ReasoningItem,
    ReasoningText,
)
from rft.platform.serving.responses.stream_schemas import (
    ArgumentsDeltaEvent,
    ArgumentsDoneEvent,
    ErrorEvent,
    ItemEvent,
    LifecycleEvent,
    PartEvent,
    ReasoningDeltaEvent,
    ReasoningDoneEvent,
    StreamEvent,
    TextDeltaEvent,
    TextDoneEvent,
)
from rft.serving_wire.records import Choice, Done, Event, Prompt, Text


@dataclass(slots=True)
class ResponseEvents:
    """Takes what the reply has taken, one after the other."""

    reply: ResponseReply
    _number: int = 0
    _places: dict[str, int] = field(default_factory=dict[str, int])
    """Of items in the output, by their id."""
    _output: dict[int, OutputItem] = field(default_factory=dict[int, OutputItem])
    """Those that are complete, by their place."""

    def of(self, event: Event, now: int) -> Iterator[StreamEvent]:
        """What the stream says on account of it. `now`: seconds since 1970."""
        for told in self._of(event, now):
            yield self._numbered(told)

    def failed(self, error: ApiError) -> Iterator[StreamEvent]:
        """The last ones of a response that broke."""
        response = self.reply.response("failed", self._complete(), error=error.message)
        yield self._numbered(LifecycleEvent(type="response.failed", response=response))
        body = error.envelope.error
        yield self._numbered(ErrorEvent(code=body.code, message=body.message, param=body.param, error=body))

    def _numbered(self, event: StreamEvent) -> StreamEvent:
        number, self._number = self._number, self._number + 1
        return event.model_copy(update={"sequence_number": number})

    def _of(self, event: Event, now: int) -> Iterator[StreamEvent]:
        match event:
            case Prompt():
                begun = self.reply.response("in_progress", [])
                yield LifecycleEvent(type="response.created", response=begun)
                yield LifecycleEvent(type="response.in_progress", response=begun)
                if self.reply.order.has_sealed_turns:
                    yield from self._begin_reasoning()
            case Text():
                if event.has_thought:
                    yield from self._begin_reasoning()
                yield from self._begin_message()
                yield TextDeltaEvent(item_id=self._message_id, output_index=self._place(), delta=event.text)
            case Choice():
                yield from self._end_reasoning(event)
                yield from self._end_message(event)
                for call in self.reply.calls(event):
                    yield from self._call(call)
            case Done():
                status = self.reply.end_status
                response = self.reply.response(status, self._complete(), at=now)
                is_whole = status == "completed"
                yield LifecycleEvent(
                    type="response.completed" if is_whole else "response.incomplete", response=response
                )
            case _:
                pass

    @property
    def _message_id(self) -> str:
        return f"msg_{self.reply.key}"

    @property
    def _reasoning_id(self) -> str:
        return f"rs_{self.reply.key}"

    def _place(self) -> int:
        return self._places[self._message_id]

    def _complete(self) -> list[OutputItem]:
        return [item for _, item in sorted(self._output.items())]

    def _begin(self, item: OutputItem) -> ItemEvent:
        place = self._places[item.id] = len(self._places)
        return ItemEvent(type="response.output_item.added", output_index=place, item=item)

    def _end(self, item: OutputItem) -> ItemEvent:
        place = self._places[item.id]
        self._output[place] = item
        return ItemEvent(type="response.output_item.done", output_index=place, item=item)

    def _begin_reasoning(self) -> Iterator[StreamEvent]:
        if self._reasoning_id not in self._places:
            yield self._begin(ReasoningItem(id=self._reasoning_id, status="in_progress"))

    def _end_reasoning(self, choice: Choice) -> Iterator[StreamEvent]:
        if self.reply.has_reasoning(choice):
            yield from self._begin_reasoning()
        place = self._places.get(self._reasoning_id)
        if place is None:
            return
        if choice.reasoning:
            yield from self._thought(choice.reasoning, self._reasoning_id, place)
        yield self._end(self.reply.reasoning_item(choice))

    def _thought(self, text: str, item_id: str, place: int) -> Iterator[StreamEvent]:
        empty, whole = ReasoningText(text=""), ReasoningText(text=text)
        yield PartEvent(type="response.content_part.added", part=empty, item_id=item_id, output_index=place)
        yield ReasoningDeltaEvent(item_id=item_id, output_index=place, delta=text)
        yield ReasoningDoneEvent(item_id=item_id, output_index=place, text=text)
        yield PartEvent(type="response.content_part.done", part=whole, item_id=item_id, output_index=place)

    def _begin_message(self) -> Iterator[StreamEvent]:
        item_id = self._message_id
        if item_id in self._places:
            return
        yield self._begin(OutputMessage(id=item_id, status="in_progress", content=[]))
        part = OutputText(text="")
        yield PartEvent(type="response.content_part.added", part=part, item_id=item_id, output_index=self._place())

    def _end_message(self, choice: Choice) -> Iterator[StreamEvent]:
        if has_message(choice):
            yield from self._begin_message()
        item_id = self._message_id
        if item_id not in self._places:
            return
        part, place = OutputText(text=choice.content), self._place()
        yield TextDoneEvent(item_id=item_id, output_index=place, text=choice.content)
        yield PartEvent(type="response.content_part.done", part=part, item_id=item_id, output_index=place)
        yield self._end(self.reply.message(choice))

    def _call(self, call: FunctionCallItem) -> Iterator[StreamEvent]:
        yield self._begin(call.model_copy(update={"arguments": "", "status": "in_progress"}))
        place = self._places[call.id]
        yield ArgumentsDeltaEvent(item_id=call.id, output_index=place, delta=call.arguments)
        yield ArgumentsDoneEvent(item_id=call.id, output_index=place, name=call.name, arguments=call.arguments)
        yield self._end(call)
