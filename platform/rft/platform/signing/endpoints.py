"""`/v1/signing_secrets`."""

from typing import Annotated

from fastapi import APIRouter, Query

from rft.platform.api.dependencies import AppServices, Uow
from rft.platform.api.pagination import After, ListPage
from rft.platform.signing import service
from rft.platform.signing.schemas import NewSigningSecret, SigningSecretObject

router = APIRouter(prefix="/signing_secrets", tags=["signing secrets"])


@router.get("")
async def list_signing_secrets(
    uow: Uow, after: After = None, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> ListPage[SigningSecretObject]:
    """Signing secrets, newest first, without their values."""
    return await service.list_secrets(uow.connection, after=after, limit=limit)


@router.post("/rotate")
async def rotate_signing_secret(uow: Uow, services: AppServices) -> NewSigningSecret:
    """Make a new secret; its value is shown this once. The old one stays valid until it is retired."""
    return await service.rotate(uow.connection, services.secret_box)


@router.delete("/{signing_secret_id}")
async def retire_signing_secret(uow: Uow, signing_secret_id: str) -> SigningSecretObject:
    """Sign nothing with it any more. The last active one stays."""
    return await service.retire(uow.connection, signing_secret_id)
