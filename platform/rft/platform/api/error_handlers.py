"""Renders every failure of a request as the contract's envelope, validation errors included."""

import logging
from collections.abc import Sequence
from math import ceil
from typing import cast

import psycopg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import JsonValue
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from rft.platform.api.errors import ApiError, BadRequest, NotFound, TooLarge, Unavailable
from rft.platform.store.database import NoFreeConnection

_LOG = logging.getLogger(__name__)
RETRY_AFTER = "retry-after"
_RETRY_AFTER_S = 2
_MOST_PROBLEMS = 50
_SHOWN_CHARS = 100
"""How many of a body's problems are looked at: it may have one for each of its bytes."""
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def install(app: FastAPI) -> None:
    """Replace FastAPI's own renderings."""
    app.add_exception_handler(ApiError, _on_api_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(psycopg.OperationalError, _on_database_down)
    app.add_exception_handler(psycopg.DataError, _on_unstorable)


def render(error: ApiError, headers: dict[str, str] | None = None) -> JSONResponse:
    """The reply of an error."""
    extra = dict(headers or {})
    if error.status < 500:
        # The SDK repeats some 4xx by itself; ours never change by asking again.
        extra["x-should-retry"] = "false"
    if isinstance(error, Unavailable):
        extra.setdefault(RETRY_AFTER, str(ceil(error.retry_after_s or _RETRY_AFTER_S)))
    return JSONResponse(error.envelope.model_dump(), status_code=error.status, headers=extra)


async def _on_api_error(_request: Request, error: Exception) -> JSONResponse:
    return render(cast(ApiError, error))


async def _on_database_down(_request: Request, error: Exception) -> JSONResponse:
    return database_down(error)


def database_down(error: Exception) -> JSONResponse:
    """The reply while the database is away or has no room, or all connections to it are in use."""
    if isinstance(error, NoFreeConnection):
        _LOG.error("too many requests at once: %s", error)
        return render(Unavailable("Too many requests at once; try again.", code="no_free_connection"))
    if isinstance(error, psycopg.errors.DiskFull):
        _LOG.error("the disk that holds the database is full: %s", error)
        message = (
            "The disk that holds the database is full: nothing can be stored until there is room. Nothing is lost."
        )
        return render(Unavailable(message, code="disk_full"))
    _LOG.error("the database does not answer: %r", error)
    return render(Unavailable("The database does not answer; try again.", code="database_unavailable"))


async def _on_unstorable(_request: Request, error: Exception) -> JSONResponse:
    _LOG.info("a request holds what cannot be stored: %r", error)
    return render(BadRequest("The request holds a character or number that cannot be stored.", code="invalid_value"))


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    raised = cast(HTTPException, error)
    headers = dict(raised.headers or {})
    if raised.status_code == 405:
        headers["Allow"] = ", ".join(_allowed_methods(request))
    return render(_to_api_error(request, raised), headers)


def _allowed_methods(request: Request) -> list[str]:
    """What the path takes: the router itself names only the methods of the first route that it met."""
    routes: Sequence[BaseRoute] = request.app.routes
    asked = [(method, {**request.scope, "method": method}) for method in _METHODS]
    return [method for method, scope in asked if any(route.matches(scope)[0] is Match.FULL for route in routes)]


def _to_api_error(request: Request, raised: HTTPException) -> ApiError:
    match raised.status_code:
        case 404:
            return NotFound(f"Invalid URL ({request.method} {request.url.path})", code="unknown_url")
        case 405:
            return MethodNotAllowed(
                f"Method {request.method} is not allowed for {request.url.path}", code="method_not_allowed"
            )
        case 413:
            return TooLarge("The request's body is too large.", code="request_too_large")
        case status if 400 <= status < 500:
            return BadRequest(str(raised.detail))
        case _:
            return ApiError("The server had an error while processing your request.")


class MethodNotAllowed(ApiError):
    """The URL exists, this method does not."""

    status = 405
    type = "invalid_request_error"


async def _on_validation_error(request: Request, error: Exception) -> JSONResponse:
    invalid = cast(RequestValidationError, error)
    if isinstance(invalid.body, bytes):  # FastAPI reads JSON where the request says that it is some.
        kind = request.headers.get("content-type", "")
        said = f"not as {kind[:_SHOWN_CHARS]!r}" if kind else "which is missing"
        return render(
            BadRequest(
                f"Send the body as JSON, with the header `Content-Type: application/json`, {said}.", code="invalid_json"
            )
        )
    return render(to_bad_request(cast(Sequence[ErrorDetails], invalid.errors()), cast(JsonValue, invalid.body)))


def to_bad_request(errors: Sequence[ErrorDetails], body: JsonValue) -> BadRequest:
    """The first problem, with the path of its field; problems of the same field are told together."""
    first = errors[0]
    param = _param(first["loc"], body)
    if first["type"] == "json_invalid":
        return BadRequest(f"We could not parse the JSON body of your request: {first['msg']}.", code="invalid_json")
    if first["type"] == "missing":
        subject = f"parameter: '{param}'" if param else "request body"
        return BadRequest(f"Missing required {subject}.", param=param, code="missing_required_parameter")
    looked_at = errors[:_MOST_PROBLEMS]
    reasons = dict.fromkeys(_reason(error) for error in looked_at if _param(error["loc"], body) == param)
    subject = f"'{param}'" if param else "request body"
    return BadRequest(f"Invalid {subject}: {'; or '.join(reasons)}.", param=param, code=_code(first["type"]))


def _code(kind: str) -> str:
    return "unknown_parameter" if kind == "extra_forbidden" else "invalid_value"


def _reason(error: ErrorDetails) -> str:
    return error["msg"].removeprefix("Value error, ").removesuffix(".")


def _param(location: Sequence[int | str], body: JsonValue) -> str | None:
    """`('body', 'a', 0, 'b', 'int')` as `a[0].b`: names that are not in the body, but for the last, are pydantic's."""
    if not location:
        return None
    # A form's body is no JSON, and neither are queries and paths: there every name counts.
    here: JsonValue = body if location[0] == "body" and isinstance(body, dict | list) else {}
    path = ""
    for part in location[1:]:
        if isinstance(part, int):
            if not isinstance(here, list):
                break
            path += f"[{part}]"
            here = here[part] if part < len(here) else None
        elif isinstance(here, dict):
            path += f".{part}" if path else part
            here = here.get(part)
        else:
            break
    return path or None
