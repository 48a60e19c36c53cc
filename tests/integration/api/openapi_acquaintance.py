"""Made-up requests that know something of the API they are sent to."""

import zlib
from typing import Any, TypeAlias, cast

import schemathesis

from tests.integration.api.furnished_api import FurnishedApi

Case: TypeAlias = schemathesis.Case[Any]
_KEY = "idempotency-key"
_GRADE = "def grade(sample, item):\n    return 1.0\n"


def acquaint(case: Case, furnished: FurnishedApi) -> None:
    """Put things that exist in place of most made-up names, so that requests get further than "no such object"."""
    pool = furnished.spare if case.method == "DELETE" else furnished.known
    for name, value in case.path_parameters.items():
        case.path_parameters[name] = one_of(pool.get(name, ()), value)
    acquaint_order(case, furnished)


def acquaint_order(case: Case, furnished: FurnishedApi) -> None:
    """The same for all but the path."""
    if case.query.get("after") == "":
        # No object has this id: it would be the answer to every request that is about something else.
        del case.query["after"]
    if _KEY in case.headers and _is_about(case) != _KEY:
        # Coverage sends the same key with every body, which is refused, whatever the body is.
        del case.headers[_KEY]
    body = _acquainted(case.body, furnished)
    if body != case.body:
        case.body = body


def one_of(known: tuple[str, ...], value: Any) -> Any:
    """One of them, or for every fourth value the value itself; the same one for the same value."""
    number = zlib.crc32(repr(value).encode())
    return value if not known or number % 4 == 0 else known[number // 4 % len(known)]


def _is_about(case: Case) -> str | None:
    meta = case.meta
    return None if meta is None else getattr(meta.phase.data, "parameter", None)


def _acquainted(body: Any, furnished: FurnishedApi) -> Any:
    match body:
        case dict():
            known = {name: _field(name, value, furnished) for name, value in cast("dict[str, Any]", body).items()}
            return _whole(known)
        case list():
            return [_acquainted(entry, furnished) for entry in cast("list[Any]", body)]
        case _:
            return body


def _whole(body: dict[str, Any]) -> dict[str, Any]:
    """A tool's two names of its address agree, and the rows of the file describe it; a formula names a part;
    a range rises."""
    match body:
        case {"server_url": str(address), "name": str(name)}:
            names = {"url": address} if isinstance(body.get("url"), str) else {}
            return {**body, **names, "name": one_of(("search", "cat"), name)}
        case {"graders": dict(parts), "calculate_output": str(formula)}:
            return {**body, "calculate_output": one_of(tuple(cast("dict[str, Any]", parts)), formula)}
        case {"range": [int() | float() as low, int() | float() as high]} if low >= high:
            return {**body, "range": [low, low + 1]}
        case _:
            return body


def _field(name: str, value: Any, furnished: FurnishedApi) -> Any:
    if not isinstance(value, str):
        return _acquainted(value, furnished)
    match name:
        case "url":
            return one_of((furnished.grader_url,), value)
        case "server_url" | "callback_url":
            return one_of((furnished.tool_url,), value)
        case "model":
            return one_of(("tiny",), value)
        case "training_file" | "validation_file" | "test_file":
            return one_of(furnished.known["file_id"], value)
        case "source":
            return one_of((_GRADE,), value)
        case "id" if value.startswith("tool_"):
            return one_of(furnished.known["tool_id"], value)
        case "id" if value.startswith("grader_"):
            return one_of(furnished.known["grader_id"], value)
        case _:
            return value
