"""The attempts of a group as a judge reads them: what they share once, long texts shortened until all of it fits."""

from collections.abc import Sequence
from itertools import takewhile
from xml.sax.saxutils import escape

from rft.core.finished_trace import FinishedTrace
from rft.core.messages import Message, Role

MAX_CHARS = 200_000
"""What a judge is given to read at most, where shortening can bring it there."""
_TOOL_OUTPUT_CHARS = (20_000, 2_000, 400)
_ANY_TEXT_CHARS = (4_000, 800, 200)


def told(traces: Sequence[FinishedTrace], ids: Sequence[str], *, max_chars: int = MAX_CHARS) -> str:
    """All attempts in one text. Tool outputs are shortened first, then every message."""
    text = _tell(traces, ids, tool_chars=None, any_chars=None)
    for limit in _TOOL_OUTPUT_CHARS:
        if len(text) <= max_chars:
            return text
        text = _tell(traces, ids, tool_chars=limit, any_chars=None)
    for limit in _ANY_TEXT_CHARS:
        if len(text) <= max_chars:
            return text
        text = _tell(traces, ids, tool_chars=_TOOL_OUTPUT_CHARS[-1], any_chars=limit)
    return text


def shared_prefix(traces: Sequence[FinishedTrace]) -> int:
    """How many messages all attempts begin with; never a whole attempt, so that each has something of its own."""
    shortest = min(len(trace.messages) for trace in traces)
    columns = (tuple(trace.messages[place] for trace in traces) for place in range(max(0, shortest - 1)))
    return sum(1 for _ in takewhile(lambda column: all(message == column[0] for message in column), columns))


def _tell(traces: Sequence[FinishedTrace], ids: Sequence[str], *, tool_chars: int | None, any_chars: int | None) -> str:
    shared = shared_prefix(traces)
    parts = ["<task>", *_lines(traces[0].messages[:shared], tool_chars, any_chars), "</task>"] if shared else []
    for known, trace in zip(ids, traces, strict=True):
        parts.append(f'<trajectory id="{known}">')
        parts.extend(_lines(trace.messages[shared:], tool_chars, any_chars))
        if trace.finish_reason == "length":
            parts.append("[cut off: the attempt used up its tokens]")
        parts.append("</trajectory>")
    return "\n".join(parts)


def _lines(messages: Sequence[Message], tool_chars: int | None, any_chars: int | None) -> list[str]:
    return [_line(message, tool_chars if message.role is Role.TOOL else any_chars) for message in messages]


def _line(message: Message, max_chars: int | None) -> str:
    # Escaped, so that an attempt cannot close its own element and speak as another, or as us.
    calls = [
        f"[calls {escape(call.name)} with {escape(_cut(call.arguments, max_chars))}]" for call in message.tool_calls
    ]
    text = escape(_cut(message.content, max_chars))
    name = f" {escape(message.name)}" if message.name else ""
    return "\n".join([f"{message.role}{name}: {text}".rstrip(), *calls])


def _cut(text: str, max_chars: int | None) -> str:
    if max_chars is None or len(text) <= max_chars:
        return text
    head, tail = max_chars * 3 // 4, max_chars // 4
    return f"{text[:head]}\n[cut: {len(text):,} characters]\n{text[-tail:]}"
