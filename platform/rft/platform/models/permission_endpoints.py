"""`/v1/fine_tuning/checkpoints/{model}/permissions`. At the original an admin key's business; here any key is one."""

from typing import Annotated

from fastapi import APIRouter, Query

from rft.platform.api.dependencies import AppSettings, Uow
from rft.platform.api.pagination import After, ListPage
from rft.platform.models import permission_service as service
from rft.platform.models.permission_objects import PermissionDeleted, PermissionObject, PermissionsWanted
from rft.platform.models.permission_repository import Order

router = APIRouter(prefix="/fine_tuning/checkpoints", tags=["checkpoint permissions"])


@router.post("/{fine_tuned_model_checkpoint:path}/permissions")
async def create_checkpoint_permissions(
    uow: Uow, settings: AppSettings, fine_tuned_model_checkpoint: str, wanted: PermissionsWanted
) -> ListPage[PermissionObject]:
    """Allow projects to use a checkpoint. Kept for code that sets them: one installation serves one project."""
    return await service.allow(uow, settings, fine_tuned_model_checkpoint, wanted.project_ids)


@router.get("/{fine_tuned_model_checkpoint:path}/permissions")
async def list_checkpoint_permissions(
    uow: Uow,
    settings: AppSettings,
    fine_tuned_model_checkpoint: str,
    project_id: str | None = None,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    order: Order = "descending",
) -> ListPage[PermissionObject]:
    """A checkpoint's permissions, by age."""
    return await service.list_permissions(
        uow, settings, fine_tuned_model_checkpoint, after=after, limit=limit, order=order, project_id=project_id
    )


@router.delete("/{fine_tuned_model_checkpoint:path}/permissions/{permission_id}")
async def delete_checkpoint_permission(
    uow: Uow, settings: AppSettings, fine_tuned_model_checkpoint: str, permission_id: str
) -> PermissionDeleted:
    """Take a permission back."""
    await service.forbid(uow, settings, fine_tuned_model_checkpoint, permission_id)
    return PermissionDeleted(id=permission_id)
