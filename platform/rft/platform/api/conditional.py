"""Conditional GET: a poll that has the newest answer already gets 304 without a body (RFC 9110)."""

import hashlib
from typing import Any

from fastapi import Request
from pydantic import BaseModel
from starlette.responses import Response

NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "Nothing has changed since the reply whose `ETag` was sent in `If-None-Match`."}
}
"""For a route's `responses`."""
STREAM_POSITION = "last-event-id"
STREAM_GOES_ON: dict[int | str, dict[str, Any]] = NOT_MODIFIED | {
    200: {
        "headers": {
            STREAM_POSITION: {
                "description": "Sent as `Last-Event-ID`, it makes the job's stream go on where this reply ends.",
                "schema": {"type": "string"},
            }
        }
    }
}
"""The same for what a job's stream goes on from."""


def etag_of(*version: object) -> str:
    """A weak tag for whatever has this version."""
    return _etag("\x1f".join(str(part) for part in version).encode())


def _etag(version: bytes) -> str:
    return f'W/"{hashlib.sha256(version).hexdigest()[:32]}"'


def has_newest(request: Request, etag: str) -> bool:
    """Whether the caller has the answer with this tag."""
    wanted = request.headers.get("if-none-match")
    if wanted is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in wanted.split(",")}
    return "*" in tags or etag.removeprefix("W/") in tags


def not_modified(etag: str) -> Response:
    """A 304 reply with the tag and without a body."""
    return Response(status_code=304, headers={"etag": etag, "cache-control": "private, no-cache"})


def tagged(content: str | bytes, etag: str, newest_seq: int | None = None) -> Response:
    """The answer, a JSON document, with its tag; `newest_seq`: and with the event after which a stream goes on."""
    headers = {"etag": etag, "cache-control": "private, no-cache"}
    if newest_seq is not None:
        headers[STREAM_POSITION] = str(newest_seq)
    return Response(content, media_type="application/json", headers=headers)


def by_content(request: Request, body: BaseModel | bytes) -> Response:
    """The answer, or a 304 reply: for bodies that are cheap to make and have no version of their own."""
    content = body if isinstance(body, bytes) else body.model_dump_json().encode()
    etag = _etag(content)
    if has_newest(request, etag):
        return not_modified(etag)
    return tagged(content, etag)
