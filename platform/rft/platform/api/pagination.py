"""List pages of the wire contract."""

from collections.abc import Sequence
from typing import Annotated, Generic, Literal, TypeVar

from fastapi import Query
from pydantic import BaseModel
from pydantic_core import to_json

from rft.core.base import JsonObject
from rft.platform.api.errors import BadRequest


class Listed(BaseModel):
    """Anything that can be listed."""

    id: str


T = TypeVar("T", bound=Listed)


class ListPage(BaseModel, Generic[T]):
    """One page; the next one starts `after` the last id."""

    object: Literal["list"] = "list"
    data: list[T]
    has_more: bool
    first_id: str | None
    last_id: str | None


After = Annotated[str | None, Query(description="The id of the last object of the previous page.")]
Order = Literal["asc", "desc"]


def to_page(objects: Sequence[T], *, limit: int) -> ListPage[T]:
    """A page of up to `limit` out of up to `limit + 1` objects: the one too many says that there is more."""
    data = list(objects[:limit])
    return ListPage[T](
        data=data,
        has_more=len(objects) > limit,
        first_id=data[0].id if data else None,
        last_id=data[-1].id if data else None,
    )


def page_document(objects: Sequence[JsonObject], *, limit: int) -> bytes:
    """The same as JSON, of objects that come from the database as they go out: each with its `id`."""
    data = objects[:limit]
    return to_json(
        {
            "object": "list",
            "data": data,
            "has_more": len(objects) > limit,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
        }
    )


def unknown_cursor(after: str) -> BadRequest:
    """The reply to an `after` that names nothing."""
    return BadRequest(f"No object with id '{after}' to continue after.", param="after", code="invalid_cursor")
