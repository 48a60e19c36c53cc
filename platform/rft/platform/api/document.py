"""The OpenAPI document: what every endpoint answers and reads, beyond what its own signature says."""

from typing import Any, cast

from fastapi import FastAPI

from rft.platform.api import request_id
from rft.platform.api.error_handlers import RETRY_AFTER
from rft.platform.api.errors import ErrorEnvelope

_ENVELOPE = {"application/json": {"schema": {"$ref": f"#/components/schemas/{ErrorEnvelope.__name__}"}}}
_REFUSALS = {
    "400": "The request cannot be fulfilled as it is: `error.param` names the field, `error.code` the reason.",
    "401": "No API key, or one that is not ours.",
    "403": "A browser's session, and a request that no page of the platform's own has sent.",
    "404": "No such object.",
    "413": "The body is too large.",
    "500": "Ours; `x-request-id` finds it in the log.",
    "503": "The database does not answer, its disk is full, or too many requests came at once; worth another try.",
}
_REQUEST_ID = {"description": "Names this reply in the log.", "schema": {"type": "string"}}
_RETRY_AFTER = {"description": "Seconds to wait before another try.", "schema": {"type": "string"}}
_LARGEST = 2**63 - 1
_ETAG = {"description": "For `If-None-Match`.", "schema": {"type": "string"}}
_IF_NONE_MATCH = {
    "name": "if-none-match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "The `ETag` of an earlier reply: 304 as long as nothing has changed.",
}


class DocumentedApi(FastAPI):
    """FastAPI whose document names every refusal, by status, and the headers of every reply."""

    def openapi(self) -> dict[str, Any]:
        """The document; made once."""
        earlier = self.openapi_schema
        document = super().openapi()
        if document is not earlier:
            _make_bounds_whole(document)
            for path, operations in document["paths"].items():
                for operation in operations.values():
                    _complete(path, operation)
        return document


def _make_bounds_whole(part: Any) -> None:
    """FastAPI keeps bounds as floats, where the largest number of 8 bytes becomes one more."""
    match part:
        case dict():
            bounds = ("minimum", "maximum") if part.get("type") == "integer" else ()
            for name in bounds:
                if isinstance(part.get(name), float):
                    part[name] = min(int(part[name]), _LARGEST)
            for inner in cast("dict[str, Any]", part).values():
                _make_bounds_whole(inner)
        case list():
            for inner in cast("list[Any]", part):
                _make_bounds_whole(inner)
        case _:
            pass


def _complete(path: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    if "4XX" in responses:
        # The ranges were there to keep FastAPI from announcing its own 422, which we never send.
        for status in ("4XX", "5XX"):
            responses.pop(status, None)
        for status, description in _REFUSALS.items():
            names_object = "{" in path or "404" in responses
            if (status == "404" and not names_object) or (status == "413" and "requestBody" not in operation):
                continue
            responses[status] = {"description": description, "content": _ENVELOPE}
    for status, response in responses.items():
        if status == "503":
            response.setdefault("headers", {})[RETRY_AFTER] = _RETRY_AFTER
        response.setdefault("headers", {})[request_id.HEADER] = _REQUEST_ID
    if "304" in responses:
        operation.setdefault("parameters", []).append(_IF_NONE_MATCH)
        for status in ("200", "304"):
            responses[status]["headers"]["etag"] = _ETAG
