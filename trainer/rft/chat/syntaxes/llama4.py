"""Llama 4: calls as of Llama 3, behind what is said, which its template puts between two marks."""

from collections.abc import Sequence

from rft.chat.syntax import PlainIds, WrittenTurn, unreadable
from rft.chat.syntaxes.bare_json import BARE_CALL, CALL_BEGINNINGS, begins_call, body_of, calls_of
from rft.core.messages import ToolSchema

_OPEN, _CLOSE = "<|python_start|>", "<|python_end|>"


class Llama4Syntax(PlainIds):
    """`<|python_start|>SAID<|python_end|>{"name": ..., "parameters": {...}}`; several calls one behind the other."""

    name = "llama4"
    markers = ("<|header_start|>",)
    control_literals = (_OPEN, _CLOSE)
    stop_literals = ("<|eom|>",)
    call_beginnings = CALL_BEGINNINGS
    thought_marks = None
    call_shape = BARE_CALL

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """Calls may stand between the marks as well. One that begins so and cannot be read is told to the model; so
        are marks without any call: they are around code, and nothing here runs it."""
        del tools, is_thinking
        if (calls := calls_of(body_of(_without_marks(text)))) is not None:
            return WrittenTurn("", calls)
        said, _, behind = text.rpartition(_CLOSE)
        body, said = body_of(behind), _without_marks(said).strip()
        if (calls := calls_of(body)) is not None:
            return WrittenTurn(said, calls)
        if begins_call(body):
            return WrittenTurn(said, (unreadable(body),))
        before, is_marked, code = text.partition(_OPEN)
        if is_marked:
            return WrittenTurn(before.strip(), (unreadable(_without_marks(code)),))
        return WrittenTurn(_without_marks(text).strip())


def _without_marks(text: str) -> str:
    return text.replace(_OPEN, "").replace(_CLOSE, "")
