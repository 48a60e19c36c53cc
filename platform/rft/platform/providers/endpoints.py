"""`/v1/providers`."""

from typing import Annotated

from fastapi import APIRouter, Body, Query
from pydantic import BeforeValidator, JsonValue

from rft.platform.api.dependencies import AppServices, Reading, Uow
from rft.platform.api.pagination import After, ListPage
from rft.platform.api.wire import proper_json
from rft.platform.providers import service
from rft.platform.providers.schemas import ProviderCreate, ProviderDeleted, ProviderObject
from rft.platform.store.unit_of_work import unit_of_work

router = APIRouter(prefix="/providers", tags=["providers"])
Changes = Annotated[
    dict[str, JsonValue],
    BeforeValidator(proper_json),
    Body(description="Fields of a provider; those left out stay, null takes one away, redacted secrets are kept."),
]


@router.post("")
async def create_provider(services: AppServices, order: ProviderCreate) -> ProviderObject:
    """Register an OpenAI-compatible endpoint. Its key is stored encrypted and never shown again."""
    models = await service.probe(services.settings, order)
    async with unit_of_work(services.database, services.enqueuer) as uow:
        return await service.create(uow, services.secret_box, order, models)


@router.get("")
async def list_providers(
    uow: Reading, after: After = None, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> ListPage[ProviderObject]:
    """Registered providers, newest first."""
    return await service.list_all(uow, after=after, limit=limit)


@router.get("/{provider_id}")
async def retrieve_provider(uow: Reading, provider_id: str) -> ProviderObject:
    """One registered provider."""
    return await service.retrieve(uow, provider_id)


@router.post("/{provider_id}")
async def update_provider(uow: Uow, services: AppServices, provider_id: str, changes: Changes) -> ProviderObject:
    """Change a registered provider. Runs under way keep what they began with."""
    return await service.update(uow, services.secret_box, services.settings, provider_id, changes)


@router.delete("/{provider_id}")
async def delete_provider(uow: Uow, provider_id: str) -> ProviderDeleted:
    """Forget a registered provider, its key and all."""
    return await service.delete(uow, provider_id)
