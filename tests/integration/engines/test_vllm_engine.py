"""The engine over vLLM's wire: several servers that die, come back, refuse and lag behind."""

import asyncio
from pathlib import Path

import pytest

from rft.core.errors import RunPaused, SamplerError
from rft.engines.vllm.engine import VllmEngine
from rft.rollouts.sampler import FinishReason, Sample, SampleProgress, SampleRequest
from rft.testing.faults import Fault, FaultKind, FaultSequence
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.vllm_server import BASE, COMPLETIONS, ScriptedVllm
from rft.vllm_server.release import VERSION
from tests.integration.engines.vllm_engines import STOP, adapter, ask, engine_over, scripted, serving
from tests.shared.free_port import free_port
from tests.shared.waiting import until


async def test_a_turn_is_asked_for_with_every_field_and_comes_back_with_its_stop_token(tmp_path: Path) -> None:
    server = scripted(api_key="secret")
    async with serving([server], tmp_path, api_key="secret") as engine:
        sample = await engine.sample(ask(seed=2**63 - 1))
    assert sample.finish_reason is FinishReason.STOP
    assert sample.token_ids[-1] == STOP
    assert len(sample.logprobs) == len(sample.token_ids)
    (body,) = server.sampled
    wanted = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "logprobs": 0}
    wanted |= {"presence_penalty": 0.0, "frequency_penalty": 0.0, "seed": 2**63 - 1, "max_tokens": 30, "model": BASE}
    assert body.items() >= (wanted | {"return_token_ids": True, "ignore_eos": True, "stop_token_ids": [STOP]}).items()


async def test_a_share_of_nothing_is_told_as_the_least_that_vllm_takes(tmp_path: Path) -> None:
    server = scripted()
    async with serving([server], tmp_path) as engine:
        await engine.sample(ask(top_p=0.0))
        await engine.sample(ask(top_p=0.5))
    told = [body["top_p"] for body in server.sampled]
    assert 0 < told[0] < 1e-5
    assert told[1] == 0.5


async def test_a_new_version_reaches_every_server_under_a_name_of_its_own(tmp_path: Path) -> None:
    servers = [scripted(), scripted()]
    servers[1].unseen = 2  # As on a shared disk that lags behind.
    async with serving(servers, tmp_path) as engine:
        await engine.publish(1, adapter(tmp_path / "c1"))
        assert [list(server.adapters) for server in servers] == [["job.1.v1"]] * 2
        await engine.publish(2, adapter(tmp_path / "c2"))
        assert [list(server.adapters) for server in servers] == [["job.1.v2"]] * 2
        assert engine.policy_version == 2
        await asyncio.gather(*(engine.sample(ask(i, group=i)) for i in range(4)))
        assert {body["model"] for server in servers for body in server.sampled} == {"job.1.v2"}
        assert [path.name for path in (tmp_path / "adapters").iterdir()] == ["job.1.v2"]
    assert not any(server.adapters for server in servers)
    assert not (tmp_path / "adapters").exists()


async def test_a_rollout_keeps_its_version_and_its_server_until_it_ends(tmp_path: Path) -> None:
    servers = [scripted(), scripted()]
    async with serving(servers, tmp_path) as engine:
        await engine.publish(1, adapter(tmp_path / "c1"))
        before = await engine.sample(ask(1, version=1))
        await engine.publish(2, adapter(tmp_path / "c2"))
        newer = await engine.sample(ask(2, group=2))
        assert await engine.sample(ask(1, version=1)) == before != newer
        assert engine.live_versions == {1, 2}
        at = [{body["model"] for body in server.sampled} for server in servers]
        assert at == [{"job.1.v1"}, {"job.1.v2"}]
        engine.rollout_ended("r1")
        await until(lambda: list(servers[0].adapters) == ["job.1.v2"], "the old version is unloaded")
        with pytest.raises(SamplerError, match="version 1 is not served any more"):
            await engine.sample(ask(3, version=1))
        assert not any(server.is_dead for server in servers)


async def test_an_adapter_that_one_server_refuses_is_taken_back_everywhere(tmp_path: Path) -> None:
    servers = [scripted(max_rank=64), scripted(max_rank=8)]
    async with serving(servers, tmp_path) as engine:
        await engine.publish(1, adapter(tmp_path / "c1"))
        with pytest.raises(RunPaused, match="rank 32 is greater than max_lora_rank 8") as refused:
            await engine.publish(2, adapter(tmp_path / "c2", rank=32))
        assert refused.value.code == "adapter_refused"
        assert [list(server.adapters) for server in servers] == [["job.1.v1"]] * 2
        assert engine.policy_version == 1
        assert [path.name for path in (tmp_path / "adapters").iterdir()] == ["job.1.v1"]


async def test_a_cancelled_turn_frees_its_server(tmp_path: Path) -> None:
    server = scripted(latency_s=3600.0)
    async with serving([server], tmp_path) as engine:
        waiting = asyncio.create_task(engine.sample(ask()))
        await server.until(lambda endpoint: any(call.path == COMPLETIONS for call in endpoint.calls))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await server.until(lambda endpoint: endpoint.most_posts[COMPLETIONS] == 1 and endpoint.in_flight == 0)


async def test_requests_beyond_a_servers_places_wait_in_a_queue_that_costs_no_rollout_its_time(tmp_path: Path) -> None:
    server, queued = scripted(latency_s=0.01), list[str]()

    class Queue:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            queued.append(self.name)

        def __exit__(self, *_: object) -> None: ...

    def request(number: int) -> SampleRequest:
        return ask(number, progress=SampleProgress(queued=lambda: Queue(str(number))))

    async with serving([server], tmp_path, requests_at_once=2) as engine:
        await asyncio.gather(*(engine.sample(request(number)) for number in range(6)))
    assert server.most_posts[COMPLETIONS] == 2
    assert queued == ["2", "3", "4", "5"]


async def test_turns_of_a_server_that_dies_are_sampled_again_on_another(tmp_path: Path) -> None:
    servers = [scripted(latency_s=0.02), scripted(latency_s=0.02)]
    async with LoopbackEndpoint(servers[1]) as staying:
        dying = await LoopbackEndpoint(servers[0], port=free_port()).__aenter__()
        engine = engine_over([dying.base_url, staying.base_url], tmp_path)
        await engine.publish(1, adapter(tmp_path / "c1"))

        async def talk(number: int) -> list[Sample]:
            return [await engine.sample(ask(number, group=number, seed=seed, version=1)) for seed in range(6)]

        talks = [asyncio.create_task(talk(number)) for number in range(8)]
        await until(lambda: len(servers[0].sampled) >= 6, "the burst is under way")
        await dying.__aexit__()
        done = await asyncio.gather(*talks)
        assert [len(samples) for samples in done] == [6] * 8
        again = await asyncio.gather(*(talk(number) for number in range(8)))
        assert again == done, "which server samples makes no difference"

        reborn = scripted()
        async with LoopbackEndpoint(reborn, port=dying.port):
            await until(lambda: bool(reborn.adapters), "the live version is loaded")
            assert list(reborn.adapters) == ["job.1.v1"]
            assert not reborn.sampled
            await until(lambda: served(engine, 100, reborn), "it takes requests")
        await engine.close()


async def served(engine: VllmEngine, first: int, server: ScriptedVllm) -> bool:
    """Whether of two new rollouts at once one comes to this server."""
    await asyncio.gather(*(engine.sample(ask(first + i, group=first + i)) for i in range(2)))
    for i in range(2):
        engine.rollout_ended(f"r{first + i}")
    return bool(server.sampled)


async def test_a_server_started_again_between_two_turns_is_given_its_adapters_first(tmp_path: Path) -> None:
    old, new = scripted(), scripted()
    async with LoopbackEndpoint(old) as endpoint:
        engine = engine_over([endpoint.base_url], tmp_path, poll_s=0.02)
        await engine.publish(1, adapter(tmp_path / "c1"))
        before = await engine.sample(ask(version=1))
        endpoint.endpoint = new
        for connection in list(endpoint._open):  # pyright: ignore[reportPrivateUsage]
            connection.abort()
        assert await engine.sample(ask(version=1)) == before
        assert {body["model"] for body in new.sampled} == {"job.1.v1"}
        await engine.close()


async def test_an_engine_that_died_inside_its_server_gets_no_more_turns(tmp_path: Path) -> None:
    servers = [scripted(), scripted()]
    async with serving(servers, tmp_path) as engine:
        await engine.sample(ask(0))
        servers[0].is_dead = True
        for number in range(4):
            await engine.sample(ask(number, group=number))
        assert len(servers[1].sampled) >= 4


async def test_a_server_that_never_answers_a_turn_properly_fails_it_after_some_tries(tmp_path: Path) -> None:
    server = scripted()
    server.faults = FaultSequence([Fault(FaultKind.STATUS, status=500)], last_stays=True)
    async with serving([server], tmp_path) as engine:
        with pytest.raises(SamplerError, match="answered 500"):
            await engine.sample(ask())


async def test_a_gone_server_is_waited_for_and_then_named(tmp_path: Path) -> None:
    async with LoopbackEndpoint(scripted()) as endpoint:
        engine = engine_over([endpoint.base_url], tmp_path, patience_s=0.2)
        await engine.sample(ask())
    with pytest.raises(SamplerError, match=r"no vLLM server is up: vLLM server http://127.0.0.1:\d+ "):
        await engine.sample(ask())
    with pytest.raises(RunPaused, match="No vLLM server is up") as paused:
        await engine.publish(1, adapter(tmp_path / "c1"))
    assert paused.value.code == "engine_unreachable"
    await engine.close()


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        (scripted(version="0.33.0"), f"runs release 0.33.0; this platform works with {VERSION}"),
        (scripted(root="/models/other"), "serves /models/other, and this job trains /home/me/tiny"),
        (scripted(max_model_len=100), "holds 100 tokens, fewer than the 512 of this job"),
    ],
)
async def test_a_server_for_another_run_pauses_this_one_in_words(
    server: ScriptedVllm, problem: str, tmp_path: Path
) -> None:
    async with serving([scripted(), server], tmp_path) as engine:
        with pytest.raises(RunPaused, match=problem) as paused:
            await engine.publish(1, adapter(tmp_path / "c1"))
        assert paused.value.code == "engine_unfit"


async def test_what_an_earlier_launch_left_is_cleared_away(tmp_path: Path) -> None:
    server = scripted()
    server.adapters = {"job.0.v7": str(tmp_path), "another.0.v1": str(tmp_path)}
    (tmp_path / "adapters" / "job.0.v7").mkdir(parents=True)
    async with serving([server], tmp_path) as engine:
        await engine.sample(ask())
        assert list(server.adapters) == ["another.0.v1"]
        assert not (tmp_path / "adapters" / "job.0.v7").exists()


async def test_a_wrong_key_is_told(tmp_path: Path) -> None:
    async with serving([scripted(api_key="right")], tmp_path, api_key="wrong") as engine:
        with pytest.raises(SamplerError, match="answered 401: Unauthorized"):
            await engine.sample(ask())


async def test_the_same_for_each_server_and_nothing_after_the_end(tmp_path: Path) -> None:
    servers = [scripted(), scripted(), scripted()]
    async with serving(servers, tmp_path) as engine:
        each = await engine.sample_at_each(ask())
        assert len(each) == 3
        assert len(set(each.values())) == 1
        servers[1].is_dead = True
        assert len(await engine.sample_at_each(ask())) == 2, "a server that dies of it has no part in it"
        with pytest.raises(SamplerError, match="exceed 512 tokens"):
            await engine.sample(ask(500))
        await engine.close()
        with pytest.raises(SamplerError, match="closed"):
            await engine.sample(ask())


async def test_who_asks_each_server_waits_until_one_is_up(tmp_path: Path) -> None:
    server = scripted()
    async with serving([server], tmp_path) as engine:
        first = await engine.sample_at_each(ask())
        server.is_dead = True
        waiting = asyncio.create_task(engine.sample_at_each(ask()))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.2)
        server.is_dead = False
        assert await waiting == first


async def test_a_server_that_was_not_there_when_it_was_asked_first_answers_once_it_is(tmp_path: Path) -> None:
    port, server = free_port(), scripted()
    engine = engine_over([f"http://127.0.0.1:{port}"], tmp_path, start_patience_s=1.0)
    with pytest.raises(SamplerError, match="No vLLM server is up"):
        await engine.sample(ask())
    async with LoopbackEndpoint(server, port=port):
        await engine.sample(ask())
        await engine.publish(1, adapter(tmp_path / "c1"))
        await engine.close()
    assert [body["model"] for body in server.sampled] == [BASE]
