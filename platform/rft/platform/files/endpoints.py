"""`/v1/files`."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, File, Form, Query, UploadFile
from fastapi.responses import StreamingResponse

from rft.platform.api.dependencies import AppServices, Uow
from rft.platform.api.pagination import After, ListPage, Order
from rft.platform.files import service
from rft.platform.files.schemas import FileDeleted, FileObject, UploadPurpose

router = APIRouter(prefix="/files", tags=["files"])


@router.post("")
async def upload_file(
    uow: Uow,
    services: AppServices,
    file: Annotated[UploadFile, File(description="The bytes; `.jsonl` for fine-tuning.")],
    purpose: Annotated[UploadPurpose, Form()],
    expires_after_anchor: Annotated[str | None, Form(alias="expires_after[anchor]", pattern="^created_at$")] = None,
    expires_after_seconds: Annotated[int | None, Form(alias="expires_after[seconds]", ge=3600, le=2_592_000)] = None,
) -> FileObject:
    """Upload a file. Its rows are checked when a job starts."""
    return await service.store_upload(
        uow, services.file_store, file, purpose=purpose, expires_after_s=expires_after_seconds
    )


@router.get("")
async def list_files(
    uow: Uow,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    order: Order = "desc",
    purpose: str | None = None,
) -> ListPage[FileObject]:
    """Files by age."""
    return await service.list_files(uow, after=after, limit=limit, purpose=purpose, order=order)


@router.get("/{file_id}")
async def retrieve_file(uow: Uow, file_id: str) -> FileObject:
    """One file."""
    return service.to_file_object(await service.find(uow, file_id))


@router.delete("/{file_id}")
async def delete_file(uow: Uow, services: AppServices, file_id: str) -> FileDeleted:
    """Delete a file that no unfinished job needs."""
    await service.delete_file(uow, services.file_store, file_id)
    return FileDeleted(id=file_id)


@router.get(
    "/{file_id}/content",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
    },
)
async def retrieve_file_content(uow: Uow, services: AppServices, file_id: str) -> StreamingResponse:
    """A file's bytes, as they were uploaded."""
    row = await service.find(uow, file_id)
    return StreamingResponse(
        await services.file_store.open(row.storage_key),
        media_type="application/octet-stream",
        headers={
            "content-length": str(row.bytes),
            "content-disposition": f"attachment; filename*=utf-8''{quote(row.filename)}",
        },
    )
