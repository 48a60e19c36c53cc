"""`/v1/files`."""

from typing import Annotated, get_args
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from rft.platform.api.dependencies import AppServices, Uow
from rft.platform.api.pagination import After, ListPage, Order
from rft.platform.files import problems, service
from rft.platform.files.checking import DatasetChecks
from rft.platform.files.listing import FileListing
from rft.platform.files.receiving import form_with
from rft.platform.files.schemas import FileDeleted, FileObject, ProblemObject, UploadPurpose
from rft.platform.files.uploading import receive_upload

router = APIRouter(prefix="/files", tags=["files"])


_UPLOAD_FORM = form_with(
    {
        "type": "object",
        "required": ["file", "purpose"],
        "properties": {
            "file": {
                "type": "string",
                "format": "binary",
                "description": "The bytes, 512 MB at most; `.jsonl` for fine-tuning.",
            },
            "purpose": {"type": "string", "enum": list(get_args(UploadPurpose))},
            "expires_after[anchor]": {"type": "string", "enum": ["created_at"]},
            "expires_after[seconds]": {"type": "integer", "minimum": 3600, "maximum": 2_592_000},
        },
        "dependentRequired": {
            "expires_after[anchor]": ["expires_after[seconds]"],
            "expires_after[seconds]": ["expires_after[anchor]"],
        },
    }
)


@router.post("", openapi_extra=_UPLOAD_FORM)
async def upload_file(request: Request, services: AppServices) -> FileObject:
    """Upload a file. The rows of a fine-tuning file are read: `dataset` tells what is in it, `status_details` what is
    wrong with it; only a job that uses it fails."""
    row = await receive_upload(
        services.database,
        services.file_store,
        DatasetChecks(services.dataset_slots),
        content_type=request.headers.get("content-type", ""),
        body=request.stream(),
    )
    return service.to_file_object(row)


@router.get("", response_model=ListPage[FileObject])
async def list_files(
    services: AppServices,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    order: Order = "desc",
    purpose: str | None = None,
) -> StreamingResponse:
    """Files by age."""
    listing = FileListing(services.database, limit=limit, purpose=purpose, order=order)
    return StreamingResponse(await listing.document(after), media_type="application/json")


@router.get("/{file_id}")
async def retrieve_file(uow: Uow, file_id: str) -> FileObject:
    """One file."""
    return service.to_file_object(await service.find(uow, file_id))


@router.get("/{file_id}/problems")
async def list_file_problems(
    services: AppServices, file_id: str, after: After = None, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> ListPage[ProblemObject]:
    """Ours: the lines of a file for fine-tuning that are no rows, each with its reason; a file is not read beyond a
    thousand. What else keeps a job from using the file depends on the job, and is in the job's error."""
    return await problems.list_problems(services, file_id, after=after, limit=limit)


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
        await service.open_content(uow, services.file_store, row),
        media_type="application/octet-stream",
        headers={
            "content-length": str(row.bytes),
            "content-disposition": f"attachment; filename*=utf-8''{quote(row.filename)}",
        },
    )
