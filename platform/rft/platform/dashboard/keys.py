"""`/v1/dashboard/keys`: API keys, made and revoked by whoever has one. A key is told once, when it is made."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from rft.platform.api.dependencies import Caller, Reading, Uow
from rft.platform.api.errors import BadRequest, NotFound
from rft.platform.api.key_repository import KeyRow, LastKey, create_key, id_of, list_keys, revoke_key
from rft.platform.api.wire import TextBody, must_be

keys_router = APIRouter(prefix="/dashboard/keys", tags=["dashboard"])


class KeyCreate(TextBody):
    """A key to be made."""

    name: Annotated[Annotated[str, Field(min_length=1, max_length=128)], must_be("a text of 1 to 128 characters")]
    """Who or what it is for."""


class KeyObject(BaseModel):
    """One key, without its value."""

    id: str
    object: Literal["api_key"] = "api_key"
    name: str
    created_at: int
    last_used_at: int | None
    """To the minute; null: never used."""
    revoked_at: int | None
    is_callers: bool
    """Whether the request was made with it, or by a browser that it signed in."""


class NewKeyObject(KeyObject):
    """One key with its value, shown this once."""

    key: str


class KeyList(BaseModel):
    """All keys, newest first."""

    object: Literal["list"] = "list"
    data: list[KeyObject]


@keys_router.get("")
async def list_api_keys(uow: Reading, caller: Caller) -> KeyList:
    """API keys, newest first, revoked ones too, without their values."""
    rows = await list_keys(uow.connection)
    return KeyList(data=[_to_object(row, caller.api_key_id) for row in rows])


@keys_router.post("")
async def create_api_key(uow: Uow, caller: Caller, order: KeyCreate) -> NewKeyObject:
    """Make a key. Its value is told this once, and only its SHA-256 is stored."""
    key = await create_key(uow.connection, order.name)
    row = next(row for row in await list_keys(uow.connection) if row.id == id_of(key))
    return NewKeyObject(**_to_object(row, caller.api_key_id).model_dump(), key=key)


@keys_router.delete("/{key_id}")
async def revoke_api_key(uow: Uow, caller: Caller, key_id: str) -> KeyObject:
    """Make a key worthless at once, with the sessions and links made with it. The last usable one stays."""
    try:
        is_known = await revoke_key(uow.connection, key_id, may_be_last=False)
    except LastKey as error:
        message = f"{key_id} is the only usable key: make another first."
        raise BadRequest(message, param="key_id", code="last_key") from error
    if not is_known:
        raise NotFound(f"No such key: {key_id}", param="key_id", code="key_not_found")
    row = next(row for row in await list_keys(uow.connection) if row.id == key_id)
    return _to_object(row, caller.api_key_id)


def _to_object(row: KeyRow, callers: str) -> KeyObject:
    return KeyObject(
        id=row.id,
        name=row.name,
        created_at=int(row.created_at.timestamp()),
        last_used_at=_seconds(row.last_used_at),
        revoked_at=_seconds(row.revoked_at),
        is_callers=row.id == callers,
    )


def _seconds(when: datetime | None) -> int | None:
    return None if when is None else int(when.timestamp())
