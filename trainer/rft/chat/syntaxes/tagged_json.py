"""JSON in tags: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` of Hermes and Qwen; else lists."""

from collections.abc import Sequence

from rft.chat.json_text import skip_space
from rft.chat.named_calls import read_call, read_calls
from rft.chat.syntax import PlainIds, WrittenCall, WrittenTurn, unreadable
from rft.chat.thinking import THINK_CLOSE, THINK_OPEN, THINK_TAGS, split_thinking
from rft.core.messages import NAMED_JSON_CALL, ToolSchema


class TaggedJsonSyntax(PlainIds):
    """Several calls a turn; thinking is neither content nor calls."""

    stop_literals = ()
    thought_marks = THINK_TAGS

    def __init__(
        self,
        name: str,
        opening: str,
        closing: str,
        *,
        has_lists: bool = True,
        markers: tuple[str, ...] = (),
        others: tuple[str, ...] = (),
    ) -> None:
        """`has_lists`: a block may have several calls, in a list. `markers`: as templates spell them, where it is not
        the opening tag; `others`: further literals with a meaning."""
        self.name = name
        self.markers = markers or (opening,)
        self.control_literals = (opening, closing, *others, THINK_OPEN, THINK_CLOSE)
        self.call_shape = f"a JSON list, each call {NAMED_JSON_CALL}" if has_lists else NAMED_JSON_CALL
        self._opening, self._closing, self._has_lists = opening, closing, has_lists

    def read(self, text: str, tools: Sequence[ToolSchema], *, is_thinking: bool = False) -> WrittenTurn:
        """A block that is not exactly one JSON object with a string `name` and an object (or JSON text of one)
        `arguments`, or a list of them, cannot be read. The last block may lack its closing tag."""
        del tools
        reasoning, visible = split_thinking(text, call_open=self._opening, is_opened=is_thinking)
        pieces: list[str] = []
        calls: list[WrittenCall] = []
        start = 0
        while (opened := visible.find(self._opening, start)) >= 0:
            pieces.append(visible[start:opened])
            of_block, start = self._read_block(visible, opened + len(self._opening))
            calls += of_block
        pieces.append(visible[start:])
        return WrittenTurn("".join(pieces).strip(), tuple(calls), reasoning)

    def _read_block(self, text: str, start: int) -> tuple[tuple[WrittenCall, ...], int]:
        """The calls of the block whose content begins at `start`, and where the text after the block begins."""
        try:
            calls, stop = self._read_calls(text, skip_space(text, start))
            after = skip_space(text, stop)
            if after == len(text):
                return calls, after
            if text.startswith(self._closing, after):
                return calls, after + len(self._closing)
        except (ValueError, RecursionError):
            pass  # The model's mistake: handed back below as a call that cannot be read.
        call, end = raw_block(text, start, self._opening, self._closing)
        return (call,), end

    def _read_calls(self, text: str, start: int) -> tuple[tuple[WrittenCall, ...], int]:
        """Raises ValueError or RecursionError."""
        if self._has_lists and text.startswith("[", start):
            return read_calls(text, start)
        call, end = read_call(text, start)
        return (call,), end


def raw_block(text: str, start: int, open_tag: str, close_tag: str) -> tuple[WrittenCall, int]:
    """A block that cannot be read: it ends at its closing tag, or where the next one opens before that."""
    reopened = text.find(open_tag, start)
    end = len(text) if reopened < 0 else reopened
    closed = text.find(close_tag, start, end)
    if closed < 0:
        return unreadable(text[start:end]), end
    return unreadable(text[start:closed]), closed + len(close_tag)


HERMES = TaggedJsonSyntax(
    "hermes", "<tool_call>", "</tool_call>", has_lists=False, others=("<tool_response>", "</tool_response>")
)
LLAMA_NEMOTRON = TaggedJsonSyntax(
    "llama_nemotron",
    "<TOOLCALL>",
    "</TOOLCALL>",
    others=("<TOOL_RESPONSE>", "</TOOL_RESPONSE>", "<AVAILABLE_TOOLS>", "</AVAILABLE_TOOLS>"),
)
_TOOL_CALL = ("<|tool_call|>", "<|/tool_call|>")
PHI_4_MINI = TaggedJsonSyntax(
    "phi4_mini", *_TOOL_CALL, markers=("<|tool|>",), others=("<|tool|>", "<|/tool|>", "<|tool_response|>")
)
GRANITE_3 = TaggedJsonSyntax("granite3", *_TOOL_CALL)
"""Its templates write no closing tag."""
