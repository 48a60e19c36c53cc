"""Dataset rows: parsed, checked, immutable. Used at upload, at job start and by the command line alike."""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from rft.core.base import JsonObject, Record
from rft.core.dataset_fields import RowError, kind_of, read_messages, read_tools
from rft.core.messages import Message, ToolSchema

T = TypeVar("T")
MAX_TRAIN_ROWS = 50_000
MAX_VALID_ROWS = 1_000
MAX_ROW_BYTES = 960 << 10
"""A row travels with every call to a tool or grader, and such a call may have 1 MiB in all."""
MAX_ROW_DEPTH = 100
"""Lists and objects inside one another in a row, as in every body of the API: readers of what it travels in stop at 200
levels, or sooner."""


class DatasetRow(Record):
    """One immutable task of the dataset."""

    index: int
    """Position among the file's rows, from 0."""
    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...]
    item: JsonObject
    """The whole row as the customer wrote it: what tools and graders receive as `item`."""


class RowProblem(Record):
    """One bad line and what is wrong with it."""

    line: int
    """Line number from 1."""
    path: str
    """Where in the line, e.g. `messages[0].role`; empty for the whole line."""
    reason: str

    def __str__(self) -> str:
        where = f" at {self.path}" if self.path else ""
        return f"line {self.line}{where}: {self.reason}"


_JSON = TypeAdapter[JsonValue](JsonValue)


def parse_rows(lines: Iterable[bytes | str]) -> Iterator[DatasetRow | RowProblem]:
    """Each non-empty line as a row, or as the problem that keeps it from being one."""
    index = 0
    for line_number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        parsed = parse_row(line, line_number=line_number, index=index)
        index += isinstance(parsed, DatasetRow)
        yield parsed


def parse_row(line: bytes | str, *, line_number: int, index: int) -> DatasetRow | RowProblem:
    """One JSONL line as a row or a problem."""

    def read() -> DatasetRow:
        item = _item(line, is_first=line_number == 1)
        return DatasetRow(index=index, messages=read_messages(item), tools=read_tools(item), item=item)

    return _or_problem(read, line_number)


def parse_object(line: bytes | str, *, line_number: int) -> JsonObject | RowProblem:
    """One JSONL line as an object, whatever it holds, or the problem that keeps it from being one."""
    return _or_problem(lambda: _item(line, is_first=line_number == 1), line_number)


def _or_problem(read: Callable[[], T], line_number: int) -> T | RowProblem:
    try:
        return read()
    except UnicodeDecodeError as error:
        return RowProblem(line=line_number, path="", reason=f"not UTF-8 ({error.reason} at byte {error.start})")
    except json.JSONDecodeError as error:
        return RowProblem(line=line_number, path="", reason=f"not JSON ({error.msg} at column {error.colno})")
    except RecursionError:
        return RowProblem(line=line_number, path="", reason="nested too deeply")
    except RowError as error:
        return RowProblem(line=line_number, path=error.path, reason=error.reason)
    except ValidationError as error:
        return RowProblem(line=line_number, path="", reason=error.errors()[0]["msg"])
    except ValueError:
        return RowProblem(line=line_number, path="", reason="holds a number with too many digits")


def _item(line: bytes | str, *, is_first: bool) -> JsonObject:
    if len(line) > MAX_ROW_BYTES and len(line.rstrip()) > MAX_ROW_BYTES:
        raise RowError(
            "", f"longer than {MAX_ROW_BYTES:,} bytes: a row travels with every call, and a call may have 1 MB in all"
        )
    text = line.decode() if isinstance(line, bytes) else line
    if is_first:
        text = text.removeprefix("\ufeff")  # Some editors begin a file with a byte order mark.
    parsed = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    if text.count("[") + text.count("{") > MAX_ROW_DEPTH:
        _refuse_deep(parsed)
    item = _JSON.validate_python(parsed)
    if not isinstance(item, dict):
        raise RowError("", f"a row must be a JSON object, this is {kind_of(item)}")
    if "\\ud" in text or "\\uD" in text:
        _refuse_halved_pairs(item)
    return item


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise RowError("", f"{digits[:20]} is too large for a number")
    return number


def _refuse_deep(parsed: JsonValue) -> None:
    level = [parsed]
    for _ in range(MAX_ROW_DEPTH + 1):
        level = [
            inner
            for part in level
            if isinstance(part, dict | list)
            for inner in (part.values() if isinstance(part, dict) else part)
        ]
    if level:
        raise RowError("", f"nested more than {MAX_ROW_DEPTH} levels deep")


def _refuse_halved_pairs(item: JsonObject) -> None:
    try:
        json.dumps(item, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise RowError("", "holds half a surrogate pair (\\ud800 to \\udfff), which is no text") from error


def _refuse_constant(name: str) -> JsonValue:
    raise RowError("", f"{name} is not JSON")
