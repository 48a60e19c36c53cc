"""`/v1/fine_tuning/jobs/{id}/stream`: a job as it happens, as server-sent events."""

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request
from starlette.responses import Response

from rft.platform.api.admission import AdmissionMonitor
from rft.platform.api.authentication import Credential
from rft.platform.api.dependencies import AppDatabase, AppSettings, Caller
from rft.platform.api.event_stream import EventStream
from rft.platform.jobs.service import expect_job
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.platform.store.unit_of_work import UnitOfWork
from rft.platform.stream.feed import JobFeed
from rft.platform.stream.messages import JobStream, read_news

router = APIRouter(prefix="/fine_tuning/jobs", tags=["stream"])
_MAX_SEQ = 2**63 - 1
_MESSAGES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events.",
        "content": {
            "text/event-stream": {
                "itemSchema": {
                    "type": "object",
                    "properties": {"event": {"type": "string"}, "id": {"type": "string"}, "data": {"type": "string"}},
                }
            }
        },
    }
}


async def get_feed(request: Request, database: AppDatabase, settings: AppSettings) -> JobFeed:
    """This process's feed, made for the first watcher."""
    state = request.app.state
    if not hasattr(state, "job_feed"):
        state.job_feed = JobFeed(database, settings)
    return state.job_feed


async def get_admissions(request: Request) -> AdmissionMonitor:
    """This process's monitor."""
    return request.app.state.admissions


async def existing_job_id(database: AppDatabase, fine_tuning_job_id: str) -> str:
    """The job's id once it is known to exist: a stream that has begun cannot say 404. Raises NotFound."""
    async with database.transaction() as connection:
        await expect_job(UnitOfWork(connection), fine_tuning_job_id)
    return fine_tuning_job_id


@router.get("/{fine_tuning_job_id}/stream", response_class=Response, responses=_MESSAGES)
async def stream_job(
    database: AppDatabase,
    settings: AppSettings,
    job_id: Annotated[str, Depends(existing_job_id)],
    feed: Annotated[JobFeed, Depends(get_feed)],
    admissions: Annotated[AdmissionMonitor, Depends(get_admissions)],
    caller: Caller,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Messages `job` (the job's object), `event` (one of its events) and `step` (a finished step with its record).

    Everything from the beginning, or after `Last-Event-ID`. Ends when the job has ended and all was told, and within
    seconds of the end of the caller's key or session.
    """
    seen = int(last_event_id[:20]) if last_event_id is not None and last_event_id.isdecimal() else 0
    stream = JobStream(last_seq=min(seen, _MAX_SEQ))
    return EventStream(_pieces(database, settings, job_id, stream, feed, admissions, caller))


async def _pieces(
    database: Database,
    settings: Settings,
    job_id: str,
    stream: JobStream,
    feed: JobFeed,
    admissions: AdmissionMonitor,
    caller: Credential,
) -> AsyncGenerator[bytes]:
    with feed.watch(job_id) as tail, admissions.admitted(caller, tail.wake) as admission:
        while not stream.is_over and not admission.has_ended:
            has_news = tail.has_news
            news = tail.news_after(stream.last_seq)
            if news is None:
                async with database.transaction() as connection:
                    news = await read_news(connection, settings, job_id, after_seq=stream.last_seq)
            if messages := stream.tell(news):
                yield messages
            if news.is_all and not stream.is_over:
                await has_news.wait()
