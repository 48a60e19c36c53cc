"""`/internal/runs/{job_id}`: the inbox of a job's run, for its trainer and its rollout workers, and for nobody else.

They show the token of the launch. 409: another launch has taken the run over, or it has ended. Not part of the API that
customers see.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Request, Response

from rft.core.progress import StageCounts
from rft.platform.api.dependencies import AppDatabase
from rft.platform.api.errors import NotFound
from rft.platform.api.hang_up import while_connected
from rft.platform.rollout_inbox.guard import opened, unauthorized
from rft.platform.rollout_inbox.news_signals import NewsSignals, set_within
from rft.platform.rollout_inbox.patience import Patience, hear_trainer
from rft.platform.rollout_inbox.repository import InboxRepository
from rft.platform.rollout_inbox.run_token import RunToken
from rft.platform.store.database import Database
from rft.rollouts.shards.inbox_wire import (
    Beat,
    Delivery,
    GiveOut,
    Gone,
    InboxNews,
    Read,
    Take,
    Taken,
)

router = APIRouter(prefix="/internal/runs/{job_id}", include_in_schema=False)
_LOOK_S = 0.5
"""How often an inbox is looked at for news that another process stored, and for workers that fell silent."""


def shown_token(request: Request) -> RunToken:
    """What the caller shows. Raises Unauthorized."""
    token = RunToken.of(request.headers.get("authorization"))
    if token is None:
        raise unauthorized()
    return token


ShownToken = Annotated[RunToken, Depends(shown_token)]


@asynccontextmanager
async def _inbox(database: Database, job_id: str, token: RunToken) -> AsyncGenerator[InboxRepository]:
    async with database.transaction() as connection:
        yield await opened(connection, job_id, token)


def _signals(request: Request) -> NewsSignals:
    return cast(NewsSignals, request.app.state.news_signals)


@router.put("", status_code=204)
async def announce_run(request: Request, database: AppDatabase, job_id: str, token: ShownToken) -> Response:
    """What workers need to know of the run: text that is kept as it is."""
    run = (await request.body()).decode()
    async with _inbox(database, job_id, token) as inbox:
        await inbox.announce(run)
    return Response(status_code=204)


@router.get("")
async def announced_run(database: AppDatabase, job_id: str, token: ShownToken) -> Response:
    """The same."""
    async with _inbox(database, job_id, token) as inbox:
        run = await inbox.announced()
    if run is None:
        raise NotFound("The trainer of this run has told nothing of it yet.", code="run_not_announced")
    return Response(run, media_type="application/json")


@router.post("/shards", status_code=204)
async def give_out_shards(database: AppDatabase, job_id: str, token: ShownToken, given_out: GiveOut) -> Response:
    """Let workers take these shards."""
    async with _inbox(database, job_id, token) as inbox:
        await inbox.give_out(given_out.shards)
    return Response(status_code=204)


@router.post("/takes")
async def take_shard(database: AppDatabase, job_id: str, token: ShownToken, take: Take) -> Taken:
    """The oldest shard that nobody has taken; the worker has to say again and again that it lives."""
    async with _inbox(database, job_id, token) as inbox:
        return await inbox.take(take.worker, is_idle=take.is_idle)


@router.post("/beats")
async def note_beat(request: Request, database: AppDatabase, job_id: str, token: ShownToken, beat: Beat) -> Gone:
    """The worker lives, or leaves."""
    async with _inbox(database, job_id, token) as inbox:
        gone = await inbox.beat(beat.worker, beat.shards, is_leaving=beat.is_leaving, stages=beat.stages)
    if beat.is_leaving:
        _signals(request).notify(job_id)
    return Gone(shards=tuple(gone))


@router.get("/stages")
async def worker_stages(database: AppDatabase, job_id: str, token: ShownToken) -> StageCounts:
    """Where the rollouts are that workers run."""
    async with _inbox(database, job_id, token) as inbox:
        return await inbox.stages()


@router.post("/inbox")
async def deliver(request: Request, database: AppDatabase, job_id: str, token: ShownToken, delivery: Delivery) -> Gone:
    """Hand finished rollouts over. What belongs to shards that are not the worker's is not taken in."""
    async with _inbox(database, job_id, token) as inbox:
        gone = await inbox.deliver(delivery.worker, delivery.rollouts)
    _signals(request).notify(job_id)
    return Gone(shards=tuple(gone))


@router.post("/inbox/read")
async def read_inbox(request: Request, database: AppDatabase, job_id: str, token: ShownToken, read: Read) -> InboxNews:
    """News for the trainer, as soon as there is some."""
    patience = cast(Patience, request.app.state.inbox_patience)
    return await while_connected(request, _news(_signals(request), patience, database, job_id, token, read))


async def _news(
    signals: NewsSignals, patience: Patience, database: Database, job_id: str, token: RunToken, read: Read
) -> InboxNews:
    until_s, seen, over = time.monotonic() + read.wait_s, read.seen, read.over
    while True:
        there, asked_at_s = signals.next(job_id), time.monotonic()
        async with _inbox(database, job_id, token) as inbox:
            await hear_trainer(inbox)
            await inbox.drop(seen=seen, over=over)
            news = await inbox.news(out=read.out, patience_s=patience.had_s(asked_at_s=asked_at_s))
        seen, over = (), ()
        left_s = until_s - time.monotonic()
        if news.rollouts or news.lost or news.unknown or left_s <= 0:
            return news
        await set_within(there, min(_LOOK_S, left_s))
        await asyncio.sleep(0)
