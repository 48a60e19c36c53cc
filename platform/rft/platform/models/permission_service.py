"""What can be done with checkpoint permissions. One installation is one project's: they are kept, and bind nobody."""

import secrets

from rft.core.ids import public_id
from rft.platform.api.errors import NotFound
from rft.platform.api.pagination import ListPage, to_page, unknown_cursor
from rft.platform.models.permission_repository import Order, PermissionRepository, PermissionRow
from rft.platform.models.schemas import PermissionObject
from rft.platform.models.service import find_model
from rft.platform.orders.base_models import base_models
from rft.platform.settings import Settings
from rft.platform.store.unit_of_work import UnitOfWork


async def allow(uow: UnitOfWork, settings: Settings, model: str, project_ids: list[str]) -> ListPage[PermissionObject]:
    """Allow these projects; those that are allowed already stay so. Raises NotFound."""
    await _refuse_unknown(uow, settings, model)
    permissions = PermissionRepository(uow.connection)
    wanted = list(dict.fromkeys(project_ids))
    for project_id in wanted:
        await permissions.add(public_id("cp_", secrets.token_bytes(24)), model=model, project_id=project_id)
    rows = await permissions.of_projects(model, wanted)
    return to_page([_to_object(row) for row in rows], limit=len(wanted))


async def list_permissions(
    uow: UnitOfWork,
    settings: Settings,
    model: str,
    *,
    after: str | None,
    limit: int,
    order: Order,
    project_id: str | None,
) -> ListPage[PermissionObject]:
    """One page of a checkpoint's permissions. Raises NotFound, BadRequest."""
    await _refuse_unknown(uow, settings, model)
    permissions = PermissionRepository(uow.connection)
    if after is not None and not await permissions.has_place(model, after):
        raise unknown_cursor(after)
    rows = await permissions.page(model, after=after, limit=limit + 1, order=order, project_id=project_id)
    return to_page([_to_object(row) for row in rows], limit=limit)


async def forbid(uow: UnitOfWork, settings: Settings, model: str, permission_id: str) -> None:
    """Take a permission back. Raises NotFound."""
    await _refuse_unknown(uow, settings, model)
    if not await PermissionRepository(uow.connection).delete(model, permission_id):
        raise NotFound(
            f"The checkpoint has no permission '{permission_id}'.", param="permission_id", code="permission_not_found"
        )


async def _refuse_unknown(uow: UnitOfWork, settings: Settings, model: str) -> None:
    if model in base_models(settings):
        raise NotFound(f"'{model}' is no checkpoint but a base model.", param="model", code="model_not_found")
    await find_model(uow, settings, model)


def _to_object(row: PermissionRow) -> PermissionObject:
    return PermissionObject(id=row.id, created_at=int(row.created_at.timestamp()), project_id=row.project_id)
