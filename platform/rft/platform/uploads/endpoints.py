"""`/v1/uploads`."""

from fastapi import APIRouter, Request

from rft.platform.api.dependencies import AppServices, Uow
from rft.platform.files.receiving import form_with
from rft.platform.uploads import service
from rft.platform.uploads.schemas import PartObject, UploadComplete, UploadCreate, UploadObject

router = APIRouter(prefix="/uploads", tags=["uploads"])
_DATA = {"type": "string", "format": "binary", "description": "The bytes, 64 MB at most."}
_PART_FORM = form_with({"type": "object", "required": ["data"], "properties": {"data": _DATA}})


@router.post("")
async def create_upload(uow: Uow, wanted: UploadCreate) -> UploadObject:
    """Announce a file that comes in parts. Within an hour they are to be here, and the upload completed."""
    return await service.create_upload(uow, wanted)


@router.post("/{upload_id}/parts", openapi_extra=_PART_FORM)
async def add_upload_part(request: Request, services: AppServices, upload_id: str) -> PartObject:
    """Add a part, 64 MB at most. Parts may come in any order, and several at once."""
    return await service.add_part(
        services, upload_id, content_type=request.headers.get("content-type", ""), body=request.stream()
    )


@router.post("/{upload_id}/complete")
async def complete_upload(services: AppServices, upload_id: str, wanted: UploadComplete) -> UploadObject:
    """Make a file of the parts, in this order: they must hold as many bytes as were announced."""
    return await service.complete_upload(services, upload_id, wanted)


@router.post("/{upload_id}/cancel")
async def cancel_upload(uow: Uow, services: AppServices, upload_id: str) -> UploadObject:
    """Give an upload up, and its parts with it."""
    return await service.cancel_upload(uow, services.file_store, upload_id)
