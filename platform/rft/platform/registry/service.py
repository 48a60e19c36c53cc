"""What can be done with registered tools and graders."""

import secrets
from collections.abc import Mapping
from typing import cast

from rft.core.base import JsonObject
from rft.core.ids import public_id
from rft.platform.api.errors import BadRequest, NotFound
from rft.platform.api.pagination import ListPage, to_page, unknown_cursor
from rft.platform.orders.grader_schemas import Grader
from rft.platform.orders.grader_specification import refuse_without_judge
from rft.platform.orders.references import GRADER_PREFIX, TOOL_PREFIX
from rft.platform.orders.unknown_fields import refuse_misspelled
from rft.platform.registry.objects import to_grader_object, to_tool_object
from rft.platform.registry.redaction import (
    refuse_moved_secrets,
    refuse_redacted,
    sealed_body,
    shown_body,
    whole_body,
    with_stored_secrets,
)
from rft.platform.registry.repository import Kind, Registration, RegistrationRepository, Seen
from rft.platform.registry.resolution import validated
from rft.platform.registry.schemas import GraderCreate, GraderObject, RegistrationDeleted, ToolCreate, ToolObject
from rft.platform.settings import Settings
from rft.platform.store.secret_box import SecretBox
from rft.platform.store.unit_of_work import UnitOfWork

_PREFIXES: Mapping[Kind, str] = {"tool": TOOL_PREFIX, "grader": GRADER_PREFIX}


async def create_tool(uow: UnitOfWork, box: SecretBox, order: ToolCreate) -> ToolObject:
    """Register a tool. Raises BadRequest."""
    refuse_misspelled(order)
    body: JsonObject = order.model_dump(mode="json", exclude_unset=True)
    refuse_redacted(body)
    row = await RegistrationRepository(uow.connection).insert(
        "tool", _new_id("tool"), shown_body(body), sealed_body(body, box)
    )
    return to_tool_object(row, None)


async def create_grader(uow: UnitOfWork, box: SecretBox, settings: Settings, order: GraderCreate) -> GraderObject:
    """Register a grader. Raises BadRequest."""
    refuse_misspelled(order)
    grader_id = _new_id("grader")
    body = _named(order.grader, settings, f"grader-{grader_id[-4:]}")
    refuse_redacted(body, "grader")
    row = await RegistrationRepository(uow.connection).insert(
        "grader", grader_id, shown_body(body), sealed_body(body, box)
    )
    return to_grader_object(row, None)


async def update_tool(uow: UnitOfWork, box: SecretBox, tool_id: str, changes: JsonObject) -> ToolObject:
    """Change the fields given; null takes one away. Raises NotFound, BadRequest.

    Headers that are not given again stay, as long as they go where they went before.
    """
    stored = RegistrationRepository(uow.connection)
    row = found(await stored.lock("tool", tool_id), "tool", tool_id)
    old = whole_body(row, box)
    left = {key: value for key, value in shown_body(old).items() if key not in _renamed(changes)}
    wanted: JsonObject = {key: value for key, value in {**left, **changes}.items() if value is not None}
    order = validated(ToolCreate, wanted)
    refuse_misspelled(order, stored=left)
    checked: JsonObject = order.model_dump(mode="json", exclude_unset=True)
    refuse_moved_secrets(checked, old)
    body = cast("JsonObject", with_stored_secrets(checked, old))
    refuse_redacted(body)
    changed = await stored.update(tool_id, shown_body(body), sealed_body(body, box))
    return to_tool_object(changed, (await stored.seen("tool", [tool_id])).get(tool_id))


async def update_grader(
    uow: UnitOfWork, box: SecretBox, settings: Settings, grader_id: str, order: GraderCreate
) -> GraderObject:
    """Put another grader under this id; header values sent back redacted are kept. Raises NotFound, BadRequest."""
    refuse_misspelled(order)
    stored = RegistrationRepository(uow.connection)
    row = found(await stored.lock("grader", grader_id), "grader", grader_id)
    wanted, old = _named(order.grader, settings, str(row.body["name"])), whole_body(row, box)
    refuse_moved_secrets(wanted, old, "grader")
    body = cast("JsonObject", with_stored_secrets(wanted, old))
    refuse_redacted(body, "grader")
    changed = await stored.update(grader_id, shown_body(body), sealed_body(body, box))
    return to_grader_object(changed, (await stored.seen("grader", [grader_id])).get(grader_id))


async def retrieve_tool(uow: UnitOfWork, tool_id: str) -> ToolObject:
    """One tool. Raises NotFound."""
    stored = RegistrationRepository(uow.connection)
    row = found(await stored.get("tool", tool_id), "tool", tool_id)
    return to_tool_object(row, (await stored.seen("tool", [tool_id])).get(tool_id))


async def retrieve_grader(uow: UnitOfWork, grader_id: str) -> GraderObject:
    """One grader. Raises NotFound."""
    stored = RegistrationRepository(uow.connection)
    row = found(await stored.get("grader", grader_id), "grader", grader_id)
    return to_grader_object(row, (await stored.seen("grader", [grader_id])).get(grader_id))


async def list_tools(uow: UnitOfWork, *, after: str | None, limit: int) -> ListPage[ToolObject]:
    """One page, newest first."""
    rows, seen = await _page(uow, "tool", after, limit)
    return to_page([to_tool_object(row, seen.get(row.id)) for row in rows], limit=limit)


async def list_graders(uow: UnitOfWork, *, after: str | None, limit: int) -> ListPage[GraderObject]:
    """One page, newest first."""
    rows, seen = await _page(uow, "grader", after, limit)
    return to_page([to_grader_object(row, seen.get(row.id)) for row in rows], limit=limit)


async def delete(uow: UnitOfWork, kind: Kind, registration_id: str) -> RegistrationDeleted:
    """Forget it; jobs keep their copies. Raises NotFound."""
    if not await RegistrationRepository(uow.connection).delete(kind, registration_id):
        raise _not_found(kind, registration_id)
    return RegistrationDeleted(id=registration_id, object=kind)


def found(row: Registration | None, kind: Kind, registration_id: str) -> Registration:
    """The row, or NotFound."""
    if row is None:
        raise _not_found(kind, registration_id)
    return row


async def _page(
    uow: UnitOfWork, kind: Kind, after: str | None, limit: int
) -> tuple[list[Registration], dict[str, Seen]]:
    stored = RegistrationRepository(uow.connection)
    if after is not None and not await stored.has_place(kind, after):
        raise unknown_cursor(after)
    rows = await stored.page(kind, after=after, limit=limit + 1)
    return rows, await stored.seen(kind, [row.id for row in rows[:limit]])


def _renamed(changes: JsonObject) -> tuple[str, ...]:
    """Both names of the address, where one of them brings another."""
    return ("url", "server_url") if changes.get("url") or changes.get("server_url") else ()


def _named(grader: Grader, settings: Settings, name: str) -> JsonObject:
    refuse_without_judge(grader, settings, param="grader")
    body: JsonObject = grader.model_dump(mode="json", exclude_unset=True)
    if "id" in body:
        raise BadRequest(
            "Invalid 'grader.id': the id is given by the platform; leave it out.",
            param="grader.id",
            code="invalid_value",
        )
    return body if body.get("name") is not None else {**body, "name": name}


def _new_id(kind: Kind) -> str:
    return public_id(_PREFIXES[kind], secrets.token_bytes(24))


def _not_found(kind: Kind, registration_id: str) -> NotFound:
    return NotFound(f"No such {kind}: {registration_id}", param=f"{kind}_id", code=f"{kind}_not_found")
