"""From input items to messages: items of one turn are put together, and every call is answered once, in its place."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.dataset_fields import kind_of
from rft.core.messages import Message, Role, ToolCall
from rft.platform.serving.refused import refused
from rft.platform.serving.responses.item_fields import item_text, optional_text, required_text
from rft.platform.serving.responses.schemas import InputTransformation
from rft.platform.serving.responses.sealed_turns import NoSealedTurn, TurnSeal
from rft.serving_wire.records import SampledTurn

ITEM_KEY_LENGTH = 40
"""Of the part that the ids of one response's items share."""
CALL_NUMBER_LENGTH = 2
"""Of what follows it in the id of a call."""
_SPEAKERS = (Role.USER, Role.DEVELOPER, Role.SYSTEM)


@dataclass(slots=True)
class ReadInput:
    """Messages, and what the client has kept of their turns."""

    messages: list[Message] = field(default_factory=list[Message])
    sampled_turns: dict[int, SampledTurn] = field(default_factory=dict[int, SampledTurn])
    """By the index of their message."""
    reasoning_ids: dict[int, str] = field(default_factory=dict[int, str])
    """Of the items that held them."""
    transformations: list[InputTransformation] = field(default_factory=list[InputTransformation])
    """Turns of another model."""


@dataclass(slots=True)
class _Turn:
    """An assistant's turn while its items come."""

    place: int
    key: str
    text: str | None = None
    thoughts: str = ""
    calls: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])
    answers: dict[str, Message] = field(default_factory=dict[str, Message])
    sampled: SampledTurn | None = None
    reasoning_id: str = ""

    @property
    def has_only_thoughts(self) -> bool:
        return self.text is None and not self.calls

    def has_call(self, call_id: str, key: str) -> bool:
        """Whether a call behind answers is still one of this turn's: some clients answer each before the next."""
        return (key != "" and key == self.key) or (self.sampled is not None and call_id in self.sampled.wire_ids)


def read_items(items: Sequence[JsonValue], seal: TurnSeal | None) -> ReadInput:
    """`seal`: None where sealed turns do not count, only their text. Raises BadRequest, which names the item."""
    reader = _ItemReader(seal)
    for place, item in enumerate(items):
        reader.add(place, item)
    return reader.end()


class _ItemReader:
    def __init__(self, seal: TurnSeal | None) -> None:
        self._seal = seal
        self._read = ReadInput()
        self._turn: _Turn | None = None
        self._call_ids = dict[str, int]()
        """Where each call was made."""

    def add(self, place: int, item: JsonValue) -> None:
        path = f"input[{place}]"
        if not isinstance(item, dict):
            raise refused(path, f"must be an object, this is {kind_of(item)}")
        kind = item.get("type", "message" if "role" in item else None)
        match kind:
            case "message":
                self._message(place, path, item)
            case "reasoning":
                self._reasoning(place, path, item)
            case "function_call":
                self._call(place, path, item)
            case "function_call_output":
                self._answer(path, item)
            case "item_reference":
                raise refused(f"{path}.type", "refers to what is not stored here; send the item itself")
            case _:
                raise refused(
                    f"{path}.type",
                    f"must be one of message, reasoning, function_call, function_call_output; this is {kind!r}",
                )

    def end(self) -> ReadInput:
        self._end_turn("input")
        return self._read

    def _message(self, place: int, path: str, item: JsonObject) -> None:
        role = item.get("role")
        text = item_text(item.get("content"), f"{path}.content")
        if role == Role.ASSISTANT:
            turn = self._turn
            if turn is None or not turn.has_only_thoughts:
                turn = self._begin_turn(place, path, _key(item))
            turn.text = text
            return
        if role not in _SPEAKERS:
            raise refused(f"{path}.role", f"must be one of user, developer, system, assistant; this is {role!r}")
        self._end_turn(path)
        self._read.messages.append(Message(role=Role(role), content=text))

    def _reasoning(self, place: int, path: str, item: JsonObject) -> None:
        turn, key = self._turn, _key(item)
        is_same = turn is not None and not turn.answers and (turn.has_only_thoughts or (key and key == turn.key))
        if turn is None or not is_same:
            turn = self._begin_turn(place, path, key)
        content = item.get("content")
        turn.thoughts += "" if content is None else item_text(content, f"{path}.content", kind="reasoning_text")
        sealed = optional_text(item, "encrypted_content", path)
        if not sealed or self._seal is None:
            return
        if turn.sampled is not None:
            raise refused(f"{path}.encrypted_content", "is the second one of its turn")
        self._open(self._seal, sealed, turn, path, optional_text(item, "id", path) or "")

    def _open(self, seal: TurnSeal, sealed: str, turn: _Turn, path: str, reasoning_id: str) -> None:
        try:
            turn.sampled, turn.reasoning_id = seal.open(sealed), reasoning_id
        except NoSealedTurn as error:
            why = f"cannot be read: {error}. Leave it out, and the turn is rendered from its text"
            raise refused(f"{path}.encrypted_content", why, code="invalid_encrypted_content") from error
        if turn.sampled is None:
            self._read.transformations.append(InputTransformation(id=reasoning_id, reason="model_mismatch"))

    def _call(self, place: int, path: str, item: JsonObject) -> None:
        call_id = required_text(item, "call_id", path)
        if call_id in self._call_ids:
            why = f"{call_id!r} is the id of input[{self._call_ids[call_id]}], too; each call has its own"
            raise refused(f"{path}.call_id", why)
        self._call_ids[call_id] = place
        turn, key = self._turn, _key(item)
        if turn is None or (turn.answers and not turn.has_call(call_id, key)):
            turn = self._begin_turn(place, path, key)
        turn.key = turn.key or key
        name, arguments = required_text(item, "name", path), required_text(item, "arguments", path, is_filled=False)
        turn.calls[call_id] = ToolCall(call_id=call_id, name=name, arguments=arguments)

    def _answer(self, path: str, item: JsonObject) -> None:
        call_id, turn = required_text(item, "call_id", path), self._turn
        if call_id not in self._call_ids:
            raise refused(f"{path}.call_id", f"{call_id!r} answers no call that stands before it")
        if turn is None or call_id not in turn.calls:
            raise refused(f"{path}.call_id", f"{call_id!r} answers a call of a turn that is over")
        if call_id in turn.answers:
            raise refused(f"{path}.call_id", f"{call_id!r} is answered twice")
        output = item_text(item.get("output"), f"{path}.output")
        turn.answers[call_id] = Message(role=Role.TOOL, content=output, tool_call_id=call_id)

    def _begin_turn(self, place: int, path: str, key: str) -> _Turn:
        self._end_turn(path)
        self._turn = _Turn(place, key)
        return self._turn

    def _end_turn(self, path: str) -> None:
        """Another one begins at `path`."""
        turn, self._turn = self._turn, None
        if turn is None:
            return
        if turn.has_only_thoughts:
            raise refused(f"input[{turn.place}]", "a reasoning item stands before the message or the calls of its turn")
        unanswered = [call_id for call_id in turn.calls if call_id not in turn.answers]
        if unanswered:
            what = "each function_call must be answered by a function_call_output before the conversation goes on"
            raise refused(path, f"{what}; without an answer: {', '.join(unanswered)}")
        if turn.sampled is not None:
            index = len(self._read.messages)
            self._read.sampled_turns[index], self._read.reasoning_ids[index] = turn.sampled, turn.reasoning_id
        self._read.messages += [_said(turn), *turn.answers.values()]


def _said(turn: _Turn) -> Message:
    return Message(
        role=Role.ASSISTANT,
        content=turn.text or "",
        reasoning_content=turn.thoughts,
        tool_calls=tuple(turn.calls.values()),
    )


def _key(item: JsonObject) -> str:
    """What the ids of one response's items share; empty for ids that are not ours."""
    item_id = item.get("id")
    ending = item_id.partition("_")[2] if isinstance(item_id, str) else ""
    return ending[:ITEM_KEY_LENGTH] if len(ending) in (ITEM_KEY_LENGTH, ITEM_KEY_LENGTH + CALL_NUMBER_LENGTH) else ""
