"""`/v1/models`."""

from fastapi import APIRouter

from rft.platform.api.dependencies import AppSettings, Uow
from rft.platform.models import service
from rft.platform.models.schemas import ModelDeleted, ModelList, ModelObject

router = APIRouter(prefix="/models", tags=["models"])


@router.get("")
async def list_models(uow: Uow, settings: AppSettings) -> ModelList:
    """Base models, fine-tuned models and kept checkpoints."""
    return ModelList(data=await service.list_models(uow, settings))


@router.get("/{model:path}")
async def retrieve_model(uow: Uow, settings: AppSettings, model: str) -> ModelObject:
    """One model; names may contain slashes."""
    return await service.find_model(uow, settings, model)


@router.delete("/{model:path}")
async def delete_model(uow: Uow, settings: AppSettings, model: str) -> ModelDeleted:
    """Delete a fine-tuned model or one checkpoint of it."""
    await service.delete_model(uow, settings, model)
    return ModelDeleted(id=model)
