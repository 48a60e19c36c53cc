"""What commands are given besides short options: JSON from files and standard input, pairs, ids in paths."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from rft.core.errors import RftError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from rft.core.base import JsonObject


JOBS = "/fine_tuning/jobs"


class CannotDo(RftError):
    """What was asked for cannot be done as it is."""


def part(text: str) -> str:
    """An id as one part of a path. Raises CannotDo for what would be another path."""
    if text in ("", ".", ".."):
        raise CannotDo(f"'{text}' is no id: is a variable empty?" if not text else f"'{text}' is no id")
    return quote(text, safe="")


def job_path(job_id: str, *more: str) -> str:
    """Of a job, or of what it has."""
    return "/".join((JOBS, *map(part, (job_id, *more))))


def read_body(source: str) -> "JsonObject":
    """A JSON object from a file or, named `-`, from standard input. Raises CannotDo and OSError."""
    where = "standard input" if source == "-" else source
    try:
        content = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        # Editors of some systems begin their files with a mark that is no part of JSON.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise CannotDo(f"{where} is not JSON: it is not UTF-8 ({problem.reason} at byte {problem.start})") from problem
    return to_object(text, where)


def read_grader(source: str) -> "JsonObject":
    """A grader, also where the file holds it the way requests do. Raises CannotDo and OSError."""
    body = read_body(source)
    inner = body.get("grader")
    return inner if isinstance(inner, dict) and "type" not in body else body


def to_object(text: str, where: str) -> "JsonObject":
    """The JSON object a text holds. Raises CannotDo."""
    try:
        document = cast("JsonValue", json.loads(text))
    except ValueError as problem:
        raise CannotDo(f"{where} is not JSON: {problem}") from problem
    except RecursionError as problem:
        raise CannotDo(f"{where} is nested too deeply") from problem
    if not isinstance(document, dict):
        raise CannotDo(f"{where} must hold a JSON object")
    return document


def pairs(said: Sequence[str], option: str) -> dict[str, str]:
    """`KEY=VALUE` options as a mapping. Raises CannotDo."""
    for text in said:
        if text.find("=") < 1:
            raise CannotDo(f"{option} takes KEY=VALUE, not '{text}'")
    return dict(text.split("=", 1) for text in said)
