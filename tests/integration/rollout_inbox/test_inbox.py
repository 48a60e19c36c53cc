"""A run's inbox over HTTP, in a real database: each rollout once, leases of workers, and fences between launches."""

import asyncio
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse

from rft.core.errors import RftError, RunPaused
from rft.core.job import JobStatus
from rft.core.progress import StageCounts
from rft.egress.client import HttpClient
from rft.egress.endpoint import to_header_list
from rft.egress.guard import AddressPolicy
from rft.egress.reply import Reply, SizeCaps
from rft.platform.lifecycle.job_lease import release
from rft.platform.rollout_inbox import repository
from rft.platform.rollout_inbox.repository import close_inbox, open_inbox
from rft.rollouts.shards.http_inbox import HttpTrainerInbox, HttpWorkerInbox, RunAddress, open_inbox_http
from rft.rollouts.shards.inbox import InboxDown, StaleLaunch
from rft.rollouts.shards.inbox_wire import LostShard, SealedShard, SettledRollout, Taken
from rft.rollouts.shards.wire import Shard
from rft.trainer.rollout_worker import RolloutWorker, WorkerConfig
from tests.integration.rollout_inbox.stage import BUSY, SHARDS, Stage, settled
from tests.shared.running_service import RunningService
from tests.shared.waiting import until


async def test_what_is_given_out_comes_back_once(stage: Stage) -> None:
    await stage.trainer.announce('{"spec": "é"}')
    worker = stage.worker("a")
    assert await worker.run() == '{"spec": "é"}'
    await stage.trainer.give_out(SHARDS)
    await stage.trainer.give_out(SHARDS)
    assert (await stage.trainer.read(seen=(), over=(), wait_s=0)).untaken == ("one", "two")
    taken = [await one.take(is_idle=True) for one in (worker, stage.worker("b"), worker)]
    assert [one.shard for one in taken] == [*SHARDS, None]
    assert await worker.deliver(settled("one", "t1", "t2")) == ()
    assert await worker.deliver(settled("one", "t2", "t3")) == (), "repeated after a lost reply"
    news = await stage.trainer.read(seen=(), over=(), wait_s=0)
    assert [(one.trace_id, one.body) for one in news.rollouts] == [("t1", '"t1"'), ("t2", '"t2"'), ("t3", '"t3"')]
    assert (news.lost, news.untaken) == ((), ())
    assert (await stage.trainer.read(seen=(), over=(), wait_s=0)).rollouts == news.rollouts, "told until seen"
    seen = [one.position for one in news.rollouts]
    assert not (await stage.trainer.read(seen=seen, over=("one", "two"), wait_s=0)).rollouts
    assert await stage.rows() == (0, 0)
    assert await worker.deliver(settled("one", "t9")) == ("one",)
    assert await stage.rows() == (0, 0)


async def test_a_shard_that_is_to_be_alone_is_for_a_worker_that_runs_nothing(stage: Stage) -> None:
    alone, usual = (shard.model_copy(update={"is_alone": shard.id == "one"}) for shard in SHARDS)
    await stage.trainer.give_out([alone, usual])
    busy, idle = stage.worker("a"), stage.worker("b")
    assert await busy.take(is_idle=False) == Taken(shard=usual, is_one_waiting=True)
    assert await busy.take(is_idle=False) == Taken(shard=None, is_one_waiting=True)
    assert (await stage.trainer.read(seen=(), over=(), wait_s=0)).untaken == ("one",)
    assert await idle.take(is_idle=True) == Taken(shard=alone)
    assert await busy.take(is_idle=False) == Taken(shard=None)


async def test_the_trainer_is_told_at_once(stage: Stage) -> None:
    await stage.trainer.give_out(SHARDS)
    worker = stage.worker("a")
    await worker.take(is_idle=True)
    reading = asyncio.create_task(stage.trainer.read(seen=(), over=(), wait_s=60.0))
    await worker.deliver(settled("one", "t1"))
    assert [one.trace_id for one in (await reading).rollouts] == ["t1"]


async def test_a_silent_worker_loses_its_shard_and_keeps_what_it_handed_over(stage: Stage) -> None:
    await stage.trainer.give_out(SHARDS)
    dead, living = stage.worker("dead"), stage.worker("living")
    await dead.take(is_idle=True)
    await living.take(is_idle=True)
    await dead.deliver(settled("one", "t1"))
    await stage.expire()
    assert await living.beat({"two": BUSY}) == ()
    news = await stage.trainer.read(seen=(), over=(), wait_s=60.0)
    assert [one.trace_id for one in news.rollouts] == ["t1"]
    assert news.lost == (LostShard(id="one", worker="dead"),)
    assert await dead.deliver(settled("one", "t2")) == ("one",), "it was given up, and lives after all"
    assert await dead.beat({"one": BUSY, "two": BUSY}) == ("one", "two")
    assert (await stage.trainer.read(seen=(), over=(), wait_s=0)).lost == news.lost, "told until it is over"
    again = await stage.trainer.read(seen=[news.rollouts[0].position], over=["one"], wait_s=0)
    assert (again.rollouts, again.lost) == ((), ())


async def test_the_trainer_sees_where_rollouts_at_workers_are(stage: Stage) -> None:
    trainer, first, second = stage.trainer, stage.worker("first"), stage.worker("second")
    await trainer.give_out(SHARDS)
    for worker in (first, second):
        await worker.take(is_idle=True)
    assert await trainer.stages() == StageCounts(), "nobody has told yet"
    await asyncio.gather(first.beat({"one": BUSY}), second.beat({"two": BUSY}))
    assert await trainer.stages() == StageCounts(sampling=4, calling={"search": 2}, grading=2)
    await second.beat({"one": StageCounts(sampling=50)})  # Not its own.
    await first.beat({"one": StageCounts(calling={"cat": 3}, waiting_for_engine=1)})
    now = StageCounts(sampling=2, calling={"search": 1, "cat": 3}, grading=1, waiting_for_engine=1)
    assert await trainer.stages() == now
    await second.beat({"two": StageCounts()}, is_leaving=True)
    assert await trainer.stages() == StageCounts(calling={"cat": 3}, waiting_for_engine=1)
    await stage.expire()
    assert await trainer.stages() == StageCounts(), "a silent worker's are not under way"


async def test_a_worker_that_leaves_is_lost_at_once(stage: Stage) -> None:
    await stage.trainer.give_out(SHARDS[:1])
    worker = stage.worker("a")
    await worker.take(is_idle=True)
    await worker.beat({"one": BUSY}, is_leaving=True)
    lost = (await stage.trainer.read(seen=(), over=(), wait_s=60.0)).lost
    assert lost == (LostShard(id="one", worker="a", has_left=True),)


async def test_shards_that_the_database_has_lost_are_told_at_once(stage: Stage) -> None:
    await stage.trainer.give_out(SHARDS)
    assert not (await stage.trainer.read(seen=(), over=(), out=("one", "two"), wait_s=0)).unknown
    async with stage.database.transaction() as connection:
        await connection.execute("delete from rollout_shards where id = 'one'")
    async with asyncio.timeout(30.0):
        news = await stage.trainer.read(seen=(), over=(), out=("one", "two"), wait_s=60.0)
    assert (news.unknown, news.untaken) == (("one",), ("two",))


async def test_one_shard_is_taken_by_one_of_many_that_ask_at_once(stage: Stage) -> None:
    await stage.trainer.give_out(SHARDS)
    taken = await asyncio.gather(*(stage.worker(f"w{number}").take(is_idle=True) for number in range(12)))
    assert sorted(one.shard.id for one in taken if one.shard is not None) == ["one", "two"]


async def test_more_than_fits_one_answer_is_read_before_anything_is_lost(stage: Stage) -> None:
    await stage.trainer.give_out(SHARDS[:1])
    worker = stage.worker("a")
    await worker.take(is_idle=True)
    await worker.deliver(settled("one", *(f"t{number:03}" for number in range(300))))
    await stage.expire()
    first = await stage.trainer.read(seen=(), over=(), wait_s=0)
    assert (len(first.rollouts), first.lost) == (256, ())
    rest = await stage.trainer.read(seen=[one.position for one in first.rollouts], over=(), wait_s=0)
    assert [one.trace_id for one in (*first.rollouts, *rest.rollouts)] == [f"t{number:03}" for number in range(300)]
    assert [lost.id for lost in rest.lost] == ["one"]


async def test_large_rollouts_are_read_in_several_answers(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "_NEWS_BYTES", 1000)
    await stage.trainer.give_out(SHARDS[:1])
    worker = stage.worker("a")
    await worker.take(is_idle=True)
    sizes = [5000, 400, 600, 400, 20]
    large = [SettledRollout(shard_id="one", trace_id=f"t{n}", body="é" * (size // 2)) for n, size in enumerate(sizes)]
    await worker.deliver(large)
    await stage.expire()
    read, seen = list[list[str]](), list[int]()
    while not (news := await stage.trainer.read(seen=seen, over=(), wait_s=0)).lost:
        read.append([one.trace_id for one in news.rollouts])
        seen = [one.position for one in news.rollouts]
    read.append([one.trace_id for one in news.rollouts])
    assert read == [["t0"], ["t1", "t2"], ["t3", "t4"]]


async def test_what_is_too_large_is_no_outage(stage: Stage) -> None:
    await stage.trainer.announce("x" * 5000)
    async with HttpClient(AddressPolicy(allow_loopback=True), caps=SizeCaps(4000, 4000)) as http:
        worker = HttpWorkerInbox(stage.address, http, "a")
        with pytest.raises(RftError, match=r"the call has [\d,]+ bytes, more than 4,000") as request:
            await worker.deliver([SettledRollout(shard_id="one", trace_id="t", body="x" * 5000)])
        with pytest.raises(RftError, match="answered with more than 4,000 bytes") as reply:
            await worker.run()
    assert not isinstance(request.value, InboxDown)
    assert not isinstance(reply.value, InboxDown)


async def test_a_late_message_of_an_earlier_launch_closes_nothing(stage: Stage) -> None:
    async with stage.database.transaction() as connection:
        token = await open_inbox(connection, stage.lease)
    late, stage.address = stage.address, replace(stage.address, token=str(token))
    shard = Shard(rows=(), rollouts=(), is_grading=True, adapter=None)
    await stage.trainer.give_out([SealedShard(id="one", body=shard.model_dump_json())])
    worker = RolloutWorker(WorkerConfig(broker_url=""))
    try:
        # Its trainer has announced nothing yet: the worker keeps the shard, and waits.
        working = asyncio.create_task(asyncio.to_thread(worker.work, stage.address))

        async def is_taken() -> bool:
            return not (await stage.trainer.read(seen=(), over=(), wait_s=0)).untaken

        await until(is_taken, "the shard to be taken")
        await asyncio.to_thread(worker.work, late)
        assert (await stage.trainer.read(seen=(), over=(), wait_s=0)).lost == ()
    finally:
        await asyncio.to_thread(worker.close)
    await working
    assert [lost.id for lost in (await stage.trainer.read(seen=(), over=(), wait_s=60.0)).lost] == ["one"]


async def test_the_next_launch_begins_with_an_empty_inbox_and_the_last_one_is_fenced(stage: Stage) -> None:
    await stage.trainer.give_out(SHARDS)
    worker = stage.worker("a")
    await worker.take(is_idle=True)
    await worker.deliver(settled("one", "t1"))
    async with stage.database.transaction() as connection:
        token = await open_inbox(connection, stage.lease)
    assert (token.lease_token, token.launch) == (stage.lease.token, stage.token.launch + 1)
    for call in (
        stage.trainer.read(seen=(), over=(), wait_s=0),
        stage.trainer.give_out(SHARDS),
        worker.deliver(settled("one", "t2")),
        worker.beat({"one": BUSY}),
        worker.take(is_idle=True),
    ):
        with pytest.raises(StaleLaunch):
            await call
    assert await stage.rows() == (0, 0)
    async with stage.database.transaction() as connection:
        await close_inbox(connection, stage.lease.id, stage.token)
    stage.address = replace(stage.address, token=str(token))
    assert (await stage.worker("a").take(is_idle=True)).shard is None, "an older launch closes nothing of a newer one"
    with pytest.raises(InboxDown, match="told nothing of it yet"):
        await stage.worker("a").run()


async def test_the_inbox_is_shut_with_the_lease(stage: Stage) -> None:
    async with stage.database.transaction() as connection:
        await release(connection, stage.lease, JobStatus.PAUSED)
    with pytest.raises(StaleLaunch):
        await stage.trainer.read(seen=(), over=(), wait_s=0)
    async with stage.database.transaction() as connection:
        await close_inbox(connection, stage.lease.id, stage.token)
    with pytest.raises(StaleLaunch, match="closed"):
        await stage.worker("a").take(is_idle=True)


@pytest.mark.parametrize("shown", [None, "Bearer", "Bearer rft_key_1", "Bearer rftrun.x.1.a", "Basic {token}"])
async def test_nobody_else_gets_in(stage: Stage, shown: str | None) -> None:
    headers = {} if shown is None else {"Authorization": shown.format(token=stage.token)}
    url = f"{stage.address.platform_url}/internal/runs/{stage.address.job_id}"
    reply = await stage.http.ask("GET", url, b"", headers=to_header_list(headers), timeout_s=60.0)
    assert isinstance(reply, Reply)
    assert reply.status == 401


async def test_another_runs_token_and_a_guessed_one_open_nothing(stage: Stage) -> None:
    guessed = str(replace(stage.token, secret="guess"))
    for address in (replace(stage.address, token=guessed), replace(stage.address, job_id="ftjob-other")):
        with pytest.raises(StaleLaunch, match="not the token of a run"):
            await HttpWorkerInbox(address, stage.http, "a").take(is_idle=True)
    assert stage.token.secret not in repr(stage.token)
    assert stage.token.secret not in repr(stage.address)


async def test_a_proxys_401_is_a_refusal_and_no_end_of_the_launch() -> None:
    app = FastAPI()
    app.add_api_route("/{path:path}", lambda: Response("<h1>Sign in</h1>", 401), methods=["POST"])
    with RunningService(app) as proxy:
        http = open_inbox_http()
        with pytest.raises(RunPaused, match="answered 401: <h1>Sign in") as refusal:
            await HttpWorkerInbox(RunAddress(proxy.url, "ftjob-1", "rftrun_x"), http, "a").take(is_idle=True)
        await http.aclose()
    assert refusal.value.code == "inbox_refused"


async def test_a_proxys_page_is_an_outage_and_no_answer() -> None:
    app = FastAPI()

    @app.api_route("/{path:path}", methods=["GET", "POST"], response_class=HTMLResponse)
    async def page() -> str:
        return "<h1>Please sign in</h1>"

    with RunningService(app) as proxy:
        http = open_inbox_http()
        address = RunAddress(proxy.url, "ftjob-1", "rftrun_x")
        trainer, worker = HttpTrainerInbox(address, http), HttpWorkerInbox(address, http, "w")
        asked = (
            trainer.stages(), trainer.read(seen=(), over=(), wait_s=0.0), worker.take(is_idle=True),
            worker.beat({"one": BUSY}), worker.deliver(settled("one", "trace")),
        )  # fmt: skip
        for call in asked:
            with pytest.raises(InboxDown, match="Please sign in"):
                await call
        await http.aclose()


async def test_what_no_patience_heals_is_told_as_it_is(stage: Stage) -> None:
    with pytest.raises(RftError, match="answered 400") as caught:
        await stage.worker("a\0b").beat({"one": BUSY})
    assert not isinstance(caught.value, InboxDown | StaleLaunch)


@pytest.mark.parametrize(
    "shown",
    ["", "Bearer nonsense", "Bearer rftrun.0.0.guessed", f"Bearer rftrun.{'9' * 5000}.1.x"],
    ids=["none", "nonsense", "older launch", "digits"],
)
async def test_nothing_of_a_body_is_read_before_its_sender_is_known(stage: Stage, shown: str) -> None:
    address = urlsplit(stage.address.platform_url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = (
        f"POST /internal/runs/{stage.address.job_id}/shards HTTP/1.1\r\nHost: {address.netloc}\r\n"
        f"Authorization: {shown}\r\nContent-Type: application/json\r\nContent-Length: {60 << 20}\r\n\r\n"
    )
    writer.write(head.encode())
    try:
        status = await asyncio.wait_for(reader.readline(), 60)
    finally:
        writer.close()
        await writer.wait_closed()
    assert status in (b"HTTP/1.1 401 Unauthorized\r\n", b"HTTP/1.1 409 Conflict\r\n")
