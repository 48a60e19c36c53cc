"""Calls that are JSON objects with a `name` and `arguments`, alone or in a list."""

from rft.chat.json_text import expect, read_members, skip_space
from rft.chat.syntax import WrittenCall, checked_call


def read_call(text: str, start: int, *, has_ids: bool = False) -> tuple[WrittenCall, int]:
    """The call at `start`, and where it ends. `has_ids`: its `id` is one. Raises ValueError or RecursionError."""
    members, end = read_members(text, start)
    if "name" not in members or "arguments" not in members:
        raise ValueError("a call needs name and arguments")
    call_id = members["id"].value if has_ids and "id" in members else None
    call_id = call_id if isinstance(call_id, str) else None
    return checked_call(members["name"].value, members["arguments"], call_id), end


def read_calls(text: str, start: int, *, has_ids: bool = False) -> tuple[tuple[WrittenCall, ...], int]:
    """Those of the list at `start`, one at least, and where it ends. Raises ValueError or RecursionError."""
    calls: list[WrittenCall] = []
    expect(text, start, "[")
    position = skip_space(text, start + 1)
    while not text.startswith("]", position):
        call, position = read_call(text, position, has_ids=has_ids)
        calls.append(call)
        position = skip_space(text, position)
        if text.startswith(",", position):
            position = skip_space(text, position + 1)
        elif not text.startswith("]", position):
            raise ValueError("the list of calls does not end")
    if not calls:
        raise ValueError("no call")
    return tuple(calls), position + 1
