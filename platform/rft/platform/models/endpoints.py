"""`/v1/models` and `/v1/fine_tuning/checkpoints/{model}/permissions`."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from rft.platform.api.dependencies import AppDatabase, AppServices, AppSettings, Uow
from rft.platform.api.pagination import After, ListPage
from rft.platform.models import permission_service, service
from rft.platform.models.base_model import checked_base_model
from rft.platform.models.permission_repository import Order
from rft.platform.models.schemas import (
    ModelDeleted,
    ModelList,
    ModelObject,
    PermissionDeleted,
    PermissionObject,
    PermissionsWanted,
)
from rft.platform.store.unit_of_work import reading

router = APIRouter(prefix="/models", tags=["models"])
permissions_router = APIRouter(prefix="/fine_tuning/checkpoints", tags=["checkpoint permissions"])
"""At the original an admin key's business; here any key is one."""


@router.get("")
async def list_models(uow: Uow, settings: AppSettings) -> ModelList:
    """Base models, fine-tuned models and kept checkpoints."""
    return ModelList(data=await service.list_models(uow, settings))


@router.get(
    "/{model:path}/adapter",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}},
)
async def retrieve_model_adapter(services: AppServices, model: str) -> StreamingResponse:
    """Ours: the adapter as PEFT reads it, with tokenizer, chat template and a model card, in one zip."""
    async with reading(services.database) as uow:
        found = await service.find_exported(uow, services.settings, model)
    pieces = await service.open_archive(found, services.file_store)
    name = quote(f"{model.replace(':', '_').replace('/', '_')}.zip")
    return StreamingResponse(
        pieces, media_type="application/zip", headers={"content-disposition": f"attachment; filename*=utf-8''{name}"}
    )


@router.get("/{model:path}")
async def retrieve_model(database: AppDatabase, settings: AppSettings, model: str) -> ModelObject:
    """One model; names may contain slashes. A base model is looked at, which takes seconds the first time."""
    async with reading(database) as uow:
        found = await service.find_model(uow, settings, model)
    if found.fine_tuning_job_id is not None:
        return found
    return found.model_copy(update={"base_model": await checked_base_model(settings, model)})


@router.delete("/{model:path}")
async def delete_model(uow: Uow, settings: AppSettings, model: str) -> ModelDeleted:
    """Delete a fine-tuned model or one checkpoint of it."""
    await service.delete_model(uow, settings, model)
    return ModelDeleted(id=model)


@permissions_router.post("/{fine_tuned_model_checkpoint:path}/permissions")
async def create_checkpoint_permissions(
    uow: Uow, settings: AppSettings, fine_tuned_model_checkpoint: str, wanted: PermissionsWanted
) -> ListPage[PermissionObject]:
    """Allow projects to use a checkpoint. Kept for code that sets them: one installation serves one project."""
    return await permission_service.allow(uow, settings, fine_tuned_model_checkpoint, wanted.project_ids)


@permissions_router.get("/{fine_tuned_model_checkpoint:path}/permissions")
async def list_checkpoint_permissions(
    uow: Uow,
    settings: AppSettings,
    fine_tuned_model_checkpoint: str,
    project_id: str | None = None,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 10,
    order: Order = "descending",
) -> ListPage[PermissionObject]:
    """A checkpoint's permissions, by age."""
    return await permission_service.list_permissions(
        uow, settings, fine_tuned_model_checkpoint, after=after, limit=limit, order=order, project_id=project_id
    )


@permissions_router.delete("/{fine_tuned_model_checkpoint:path}/permissions/{permission_id}")
async def delete_checkpoint_permission(
    uow: Uow, settings: AppSettings, fine_tuned_model_checkpoint: str, permission_id: str
) -> PermissionDeleted:
    """Take a permission back."""
    await permission_service.forbid(uow, settings, fine_tuned_model_checkpoint, permission_id)
    return PermissionDeleted(id=permission_id)
