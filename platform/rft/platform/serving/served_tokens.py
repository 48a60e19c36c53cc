"""`GET /v1/served_tokens`: what was asked of models, by key, model and day."""

import re
from datetime import date
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from rft.platform.api.dependencies import Reading
from rft.platform.api.pagination import After, Listed, ListPage, to_page, unknown_cursor
from rft.platform.serving.repository import CountedDay, ServedDay, ServingRepository

router = APIRouter(prefix="/served_tokens", tags=["chat"])
_MOST = 1000
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _is_day(text: str) -> str:
    """Seconds since 1970 are read as days otherwise."""
    if _DAY.fullmatch(text) is None:
        raise PydanticCustomError("invalid_value", "must be a day, YYYY-MM-DD")
    return text


_Day = Annotated[date, BeforeValidator(_is_day)]
_Since = Annotated[_Day | None, Query(description="First day, UTC: YYYY-MM-DD.")]
_Until = Annotated[_Day | None, Query(description="Last day, UTC.")]


class ServedTokensObject(Listed):
    """One key's requests to one model on one day."""

    object: Literal["served_tokens"] = "served_tokens"
    day: date
    """UTC."""
    model: str
    api_key_id: str
    api_key_name: str | None
    """Null for a key that is no more, and for the dashboard's own."""
    requests: int
    prompt_tokens: int
    remembered_tokens: int
    """Of the prompts: taken as they were sampled."""
    completion_tokens: int
    rendered_again: int
    """Requests with a turn that was encoded anew from its text."""


@router.get("")
async def list_served_tokens(
    uow: Reading,
    model: Annotated[str | None, Query(description="Only of this model.")] = None,
    api_key_id: Annotated[str | None, Query(description="Only of this key.")] = None,
    since: _Since = None,
    until: _Until = None,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=_MOST)] = 100,
) -> ListPage[ServedTokensObject]:
    """The newest day first. What is asked now is counted when its answer has ended."""
    rows = await ServingRepository(uow.connection).days(
        model=model,
        api_key_id=api_key_id,
        since=since,
        until=until,
        after=None if after is None else _place(after),
        limit=limit + 1,
    )
    return to_page([_shown(row) for row in rows], limit=limit)


def _shown(row: CountedDay) -> ServedTokensObject:
    return ServedTokensObject(id=f"{row.day}:{row.api_key_id}:{row.model}", **row.model_dump())


def _place(cursor: str) -> ServedDay:
    """What an id names. Raises BadRequest."""
    day, _, rest = cursor.partition(":")
    api_key_id, _, model = rest.partition(":")
    try:
        return ServedDay(date.fromisoformat(_is_day(day)), api_key_id, model)
    except (ValueError, PydanticCustomError) as error:
        raise unknown_cursor(cursor) from error
