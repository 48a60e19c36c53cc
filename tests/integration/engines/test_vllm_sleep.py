"""Servers that lend their GPUs to an update: they sleep, wake up, die and come back meanwhile."""

import asyncio
from pathlib import Path

import pytest

from rft.core.errors import RunPaused
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.vllm_server import COMPLETIONS, SLEEP, WAKE_UP
from tests.integration.engines.vllm_engines import adapter, ask, engine_over, scripted, serving
from tests.shared.free_port import free_port
from tests.shared.waiting import until


async def test_servers_sleep_while_somebody_else_has_their_gpus(tmp_path: Path) -> None:
    servers = [scripted(), scripted()]
    async with serving(servers, tmp_path) as engine:
        await engine.publish(1, adapter(tmp_path / "c1"))
        before = await engine.sample(ask(version=1))
        await engine.sleep()
        asleep = asyncio.create_task(engine.sample(ask(version=1)))
        await servers[0].until(lambda endpoint: [call.path for call in endpoint.calls].count(COMPLETIONS) == 2)
        assert not asleep.done()
        await engine.wake_up()
        assert await asleep == before
    for server in servers:
        asked = [(call.path, call.query) for call in server.calls if call.path in (SLEEP, WAKE_UP)]
        assert asked == [(SLEEP, "level=1"), (WAKE_UP, "")]


async def test_a_server_that_is_started_again_when_an_update_begins_sleeps_before_it(tmp_path: Path) -> None:
    dying = await LoopbackEndpoint(scripted(), port=free_port()).__aenter__()
    starts: list[str] = []
    engine = engine_over([dying.base_url], tmp_path, ensure_running=lambda: starts.append("asked for"))
    await engine.publish(1, adapter(tmp_path / "c1"))
    await dying.__aexit__()
    starts.clear()
    await until(lambda: bool(starts), "it is started again")
    asleep = asyncio.create_task(engine.sleep())
    reborn = scripted()
    async with LoopbackEndpoint(reborn, port=dying.port):
        await asleep
        assert [call.path for call in reborn.calls if call.path in (SLEEP, COMPLETIONS)] == [SLEEP]
        await engine.close()


async def test_a_server_whose_sleep_was_lost_is_asked_again(tmp_path: Path) -> None:
    server = scripted()
    async with LoopbackEndpoint(server) as endpoint:
        engine = engine_over([endpoint.base_url], tmp_path, ensure_running=lambda: None)
        await engine.open()
        server.loses_next = SLEEP
        await engine.sleep()
        assert [call.path for call in server.calls if call.path in (SLEEP, WAKE_UP)] == [SLEEP, WAKE_UP, SLEEP]
        await engine.close()


async def test_all_servers_of_our_own_are_waited_for_before_an_update_has_their_gpus(tmp_path: Path) -> None:
    starting, late = scripted(), free_port()
    async with LoopbackEndpoint(scripted()) as first:
        urls = [first.base_url, f"http://127.0.0.1:{late}"]
        engine = engine_over(urls, tmp_path, ensure_running=lambda: None)
        await engine.open()
        opened = asyncio.create_task(engine.open_all())
        async with LoopbackEndpoint(starting, port=late):
            await opened
            assert starting.calls, "it was up and admitted"
            await engine.close()


async def test_a_server_that_does_not_come_back_for_an_update_pauses_the_run(tmp_path: Path) -> None:
    async with LoopbackEndpoint(scripted()) as endpoint:
        engine = engine_over([endpoint.base_url], tmp_path, ensure_running=lambda: None, start_patience_s=1.0)
        await engine.open()
    with pytest.raises(RunPaused, match=r"it cannot sleep during updates") as paused:
        await engine.sleep()
    assert paused.value.code == "engine_unreachable"
    await engine.close()


async def test_a_server_that_dies_asleep_is_started_again_once_its_gpu_is_free(tmp_path: Path) -> None:
    starts: list[str] = []
    dying = await LoopbackEndpoint(scripted(), port=free_port()).__aenter__()
    engine = engine_over([dying.base_url], tmp_path, ensure_running=lambda: starts.append("asked for"))
    await engine.publish(1, adapter(tmp_path / "c1"))
    await engine.sleep()
    starts.clear()
    await dying.__aexit__()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(until(lambda: bool(starts), "nobody asks"), 0.3)
    await engine.wake_up()
    await until(lambda: bool(starts), "it is started again")
    reborn = scripted()
    async with LoopbackEndpoint(reborn, port=dying.port):
        await engine.sample(ask(version=1))
    assert {body["model"] for body in reborn.sampled} == {"job.1.v1"}
    await engine.close()


async def test_a_server_that_cannot_sleep_pauses_the_run(tmp_path: Path) -> None:
    server = scripted()
    server.can_sleep = False
    async with serving([server], tmp_path) as engine:
        with pytest.raises(RunPaused, match="answered 404: Not Found: it cannot sleep during updates") as paused:
            await engine.sleep()
        assert paused.value.code == "engine_unfit"


async def test_a_server_whose_answer_was_lost_is_woken_before_it_takes_requests(tmp_path: Path) -> None:
    server = scripted()
    async with serving([server], tmp_path) as engine:
        await engine.publish(1, adapter(tmp_path / "c1"))
        await engine.sleep()
        server.loses_next = WAKE_UP
        await engine.wake_up()
        await engine.sample(ask(version=1))
    assert [call.path for call in server.calls].count(WAKE_UP) >= 2
