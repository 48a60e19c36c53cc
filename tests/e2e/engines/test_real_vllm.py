"""The contract of engines on a real vLLM server, and what only such a server can show."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import psutil
import pytest
import torch
from transformers import PreTrainedTokenizerBase

from rft.chat.call_grammar import call_shape
from rft.chat.grammar import GrammarVocabulary
from rft.chat.hermes import HermesChatFormat
from rft.core.base import JsonObject
from rft.core.events import Notice, RolloutDone, StepDone
from rft.core.hyperparameters import ResolvedHyperparameters
from rft.core.messages import ToolSchema
from rft.core.rollout import Split
from rft.core.spec import RunSecrets, VllmSpec
from rft.egress.client import HttpClient
from rft.egress.endpoint import to_header_list
from rft.egress.reply import Reply
from rft.engines.tokenizer import ChatTokenizer
from rft.engines.vllm.adapters import AdapterFolder
from rft.engines.vllm.engine import VllmEngine
from rft.engines.vllm.options import EngineOptions
from rft.rollouts.sampler import SampleRequest
from rft.starter.tokenizer import build_tokenizer
from rft.trainer.run import run
from rft.vllm_server.command import adapters_at_once
from tests.e2e.engines.conftest import HEAD_SIZE, KEY, LONG_TOKENS, RealServer
from tests.e2e.trainer.harness import Customer, events, write_run
from tests.shared.by_hand import tiny_model
from tests.shared.engine_contract import (
    CONTEXT_TOKENS,
    EngineContract,
    MakeModel,
    adapter,
    ask,
    plain_logprobs,
    random_prompt,
)
from tests.shared.waiting import until

TO_THE_END = 'finished_reason="length"'

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return build_tokenizer()


@pytest.fixture
def make_model(tokenizer: PreTrainedTokenizerBase) -> MakeModel:
    return lambda: tiny_model(tokenizer, head_size=HEAD_SIZE)


def engine_over(server: RealServer, folder: Path, context_tokens: int) -> VllmEngine:
    adapters = AdapterFolder(folder / "served", run=folder.name, launch="1")
    options = EngineOptions(str(server.model), context_tokens, api_key=KEY, patience_s=600)
    return VllmEngine([server.address], adapters, options)


@pytest.fixture
async def engine(real_server: RealServer, tmp_path: Path) -> AsyncIterator[VllmEngine]:
    engine = engine_over(real_server, tmp_path, CONTEXT_TOKENS)
    yield engine
    await engine.close()


def turn(rollout: str, prompt: list[int], version: int, *, max_tokens: int = 12) -> SampleRequest:
    return SampleRequest(rollout, prompt, max_tokens, (), 3, rollout_id=rollout, policy_version=version)


async def told(server: RealServer, method: str, path: str, key: str | None) -> Reply:
    headers = to_header_list({} if key is None else {"Authorization": f"Bearer {key}"})
    async with HttpClient() as http:
        reply = await http.ask(method, server.url + path, b"", headers=headers, timeout_s=60)
    assert isinstance(reply, Reply)
    return reply


async def metric(server: RealServer, name: str, label: str = "") -> float:
    """Sum of one metric's series, of those alone that carry the label."""
    reply = await told(server, "GET", "/metrics", KEY)
    lines = [line for line in reply.body.decode().splitlines() if line.startswith(f"vllm:{name}{{") and label in line]
    return sum(float(line.split()[-1]) for line in lines)


async def is_running(server: RealServer, requests: int) -> bool:
    return await metric(server, "num_requests_running") == requests


@pytest.fixture
def customer() -> Iterator[Customer]:
    customer = Customer()
    yield customer
    customer.close()


@pytest.mark.parametrize("key", [None, "another"])
async def test_without_its_key_a_server_tells_nothing_but_its_health(
    engine: VllmEngine, real_server: RealServer, key: str | None
) -> None:
    await engine.sample(ask(random_prompt(1, 8)))  # It is up.
    calls = [
        ("POST", "/adapters"), ("DELETE", "/adapters/x"), ("POST", "/v1/load_lora_adapter"), ("POST", "/invocations"),
        ("POST", "/tokenize"), ("GET", "/metrics"), ("GET", "/metrics/"), ("GET", "/is_sleeping"), ("GET", "/version"),
        ("GET", "/openapi.json"), ("GET", "/v1/models"), ("OPTIONS", "/v1/models"), ("GET", "//health"),
    ]  # fmt: skip
    statuses = {f"{method} {path}": (await told(real_server, method, path, key)).status for method, path in calls}
    assert statuses == dict.fromkeys(statuses, 401)
    assert (await told(real_server, "GET", "/health", key)).status == 200
    assert (await told(real_server, "GET", "/metrics", KEY)).status == 200


class TestVllm(EngineContract):
    largest_gap = 1e-4


async def test_two_versions_live_at_once_and_each_is_exact(
    engine: VllmEngine, make_model: MakeModel, tmp_path: Path
) -> None:
    prompt, adapted = random_prompt(7, 150), dict[int, torch.nn.Module]()
    for version in (1, 2):
        adapted[version] = adapter(tmp_path / f"v{version}", make_model, seed=version)
        await engine.publish(version, tmp_path / f"v{version}")
        await engine.sample(turn(f"old {version}", prompt, version))
    samples = await asyncio.gather(*(engine.sample(turn(f"old {version}", prompt, version)) for version in (1, 2)))
    for version, sample in zip((1, 2), samples, strict=True):
        expected = plain_logprobs(adapted[version], prompt, sample.token_ids)
        assert torch.tensor(sample.logprobs).sub(expected).abs().max() <= 1e-4
    assert engine.live_versions == {1, 2}
    engine.rollout_ended("old 1")


async def test_the_base_model_is_itself_whatever_adapters_the_server_holds_or_held(
    engine: VllmEngine, make_model: MakeModel, tmp_path: Path
) -> None:
    """vLLM's own code for the CPU takes the adapter in its last slot for what the base model samples."""
    prompt = random_prompt(11, 60)
    for version in range(1, adapters_at_once(1) + 1):
        adapter(tmp_path / f"v{version}", make_model, seed=version)
        await engine.publish(version, tmp_path / f"v{version}")
        await engine.sample(turn(f"held {version}", prompt, version))
    await engine.publish_base(9)
    beside = [engine.sample(turn(f"held {version}", prompt, version)) for version in (1, 2)]
    samples = await asyncio.gather(engine.sample(turn("base", prompt, 9)), *beside)
    expected = plain_logprobs(make_model().eval(), prompt, samples[0].token_ids)
    assert torch.tensor(samples[0].logprobs).sub(expected).abs().max() <= 1e-4


async def test_a_server_that_waits_leaves_the_cores_to_others(engine: VllmEngine, real_server: RealServer) -> None:
    """vLLM's processes look for messages without a pause for a second after the last one."""
    await engine.sample(ask(random_prompt(1, 8)))
    before_s = processor_s(real_server)
    await asyncio.sleep(0.8)
    assert processor_s(real_server) - before_s <= 0.2


def processor_s(server: RealServer) -> float:
    """Of all its processes so far."""
    times = [process.cpu_times() for process in psutil.Process(server.process.pid).children(recursive=True)]
    return sum(one.user + one.system for one in times)


async def test_a_schema_is_kept_by_its_server(engine: VllmEngine, tokenizer: PreTrainedTokenizerBase) -> None:
    schema: JsonObject = {
        "type": "object", "properties": {"n": {"enum": [1, 22]}}, "required": ["n"], "additionalProperties": False,
    }  # fmt: skip
    stop = cast(int, tokenizer.eos_token_id)
    constraint = GrammarVocabulary(ChatTokenizer(tokenizer, (stop,))).constraint(schema)
    free = [ask(random_prompt(seed, 20), seed=seed, max_tokens=200, stop=(stop,)) for seed in range(4)]
    requests = [replace(request, constraint=constraint) for request in free]
    samples = await asyncio.gather(*map(engine.sample, requests))
    answers = [json.loads(cast(str, tokenizer.decode([*sample.token_ids[:-1]]))) for sample in samples]
    assert {json.dumps(answer) for answer in answers} <= {'{"n": 1}', '{"n": 22}'}


async def test_a_sample_is_a_call_of_one_of_its_tools(engine: VllmEngine, tokenizer: PreTrainedTokenizerBase) -> None:
    """By the same rules as the default engine's."""
    stop = cast(int, tokenizer.eos_token_id)
    adapted = ChatTokenizer(tokenizer, (stop,))
    chat_format = HermesChatFormat(adapted)
    number: JsonObject = {
        "type": "object", "properties": {"n": {"enum": [1, 22]}}, "required": ["n"], "additionalProperties": False,
    }  # fmt: skip
    tools = [ToolSchema(name=name, description="", parameters=number) for name in ("add", "drop")]
    shape = call_shape(chat_format, tools, call_id="call_1", is_behind_thought=False)
    constraint = GrammarVocabulary(adapted).constraint(shape.rules(tools))
    free = [ask(random_prompt(seed, 20), seed=seed, max_tokens=200, stop=(stop,)) for seed in range(4)]
    samples = await asyncio.gather(*(engine.sample(replace(request, constraint=constraint)) for request in free))
    for sample in samples:
        (call,) = chat_format.parse(sample.token_ids, call_id_seed=1, tools=tools).tool_calls
        assert call.name in {"add", "drop"}
        assert json.loads(call.arguments) in ({"n": 1}, {"n": 22})


async def test_prompts_longer_than_a_batch_do_not_end_the_engine(engine: VllmEngine) -> None:
    """Seeds and prompts cut in pieces do, on a CPU."""
    prompts = [random_prompt(number, 240) for number in range(24)]
    samples = await asyncio.gather(*(engine.sample(ask(prompt, seed=i)) for i, prompt in enumerate(prompts)))
    assert len(samples) == 24


async def test_cancelled_turns_stop_in_the_server(real_server: RealServer, tmp_path: Path) -> None:
    engine, asked = engine_over(real_server, tmp_path, LONG_TOKENS), LONG_TOKENS - 8
    try:
        await engine.sample(ask(random_prompt(1, 8)))
        completed = await metric(real_server, "request_success_total", TO_THE_END)
        turns = [
            asyncio.create_task(engine.sample(ask(random_prompt(i, 8), seed=i, max_tokens=asked, stop=())))
            for i in range(4)
        ]
        # A server that is busy does not tell its metrics. All of it would take it seconds, on any machine.
        await asyncio.wait(turns, timeout=0.5)
        for one in turns:
            one.cancel()
        ended = await asyncio.gather(*turns, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended
        await until(lambda: is_running(real_server, 0), "none runs")
        assert await metric(real_server, "request_success_total", TO_THE_END) == completed
        await engine.sample(ask(random_prompt(1, 8), stop=(), max_tokens=4))
        assert await metric(real_server, "request_success_total", TO_THE_END) == completed + 1
    finally:
        await engine.close()


def test_a_whole_run_learns_from_what_the_server_samples_in_turns_with_it(
    real_server: RealServer, customer: Customer, tmp_path: Path
) -> None:
    run_dir = write_run(
        tmp_path / "run", real_server.model, customer.url, steps=2, engine="vllm",
        vllm=VllmSpec(servers=(real_server.url,), takes_turns=True),
    )  # fmt: skip
    log_bytes = real_server.log.stat().st_size
    ended = run(run_dir, RunSecrets(vllm_api_key=KEY))
    assert ended.outcome == "succeeded", ended.error_message
    done = [line.event for line in events(run_dir) if isinstance(line.event, StepDone)]
    gaps = [step.optimization.sampling_logp_difference for step in done if step.optimization is not None]
    assert len(gaps) == 2
    assert all(gap is None or gap <= 1e-4 for gap in gaps)
    assert any(gap is not None for gap in gaps)
    assert not (run_dir / "served_adapters").exists()
    logged = real_server.log.read_text()[log_bytes:]
    assert [logged.count(f"POST /{what}") for what in ("sleep", "wake_up")] == [2, 2], "once for each update"
    assert "gpu_in_turns" in [line.event.code for line in events(run_dir) if isinstance(line.event, Notice)]


def test_rollouts_go_on_beside_updates_under_the_version_they_began_with(
    real_server: RealServer, customer: Customer, tmp_path: Path
) -> None:
    wanted = ResolvedHyperparameters(
        n_epochs=1, batch_size=2, learning_rate_multiplier=1.0, compute_multiplier=1.0, eval_interval=2,
        eval_samples=1, group_size=4, steps=4, max_staleness=2,
    )  # fmt: skip
    run_dir = write_run(
        tmp_path / "run", real_server.model, customer.url, engine="vllm", vllm=VllmSpec(servers=(real_server.url,)),
        hyperparameters=wanted,
    )  # fmt: skip
    ended = run(run_dir, RunSecrets(vllm_api_key=KEY))
    assert ended.outcome == "succeeded", ended.error_message
    told = [line.event for line in events(run_dir)]
    sampled = {(e.key.split, e.key.step, e.policy_version) for e in told if isinstance(e, RolloutDone)}
    trained = {(Split.TRAIN, step, max(0, step - 3)) for step in range(1, 5)}
    assert sampled == trained | {(Split.VALID, step, step) for step in (0, 2, 4)}
    updates = [e.optimization for e in told if isinstance(e, StepDone) and e.optimization is not None]
    assert [update.staleness_max for update in updates] == [0, 1, 2, 2]
    assert updates[0].sampling_logp_difference is not None
    assert updates[0].sampling_logp_difference <= 1e-4
    assert not (run_dir / "served_adapters").exists()


async def test_a_rollout_goes_on_after_its_server_was_killed(
    engine: VllmEngine, make_model: MakeModel, real_server: RealServer, tmp_path: Path
) -> None:
    adapted = adapter(tmp_path / "v1", make_model, seed=1)
    await engine.publish(1, tmp_path / "v1")
    prompt = random_prompt(8, 40)
    first = await engine.sample(turn("r", prompt, 1))
    guardian = real_server.process.pid
    assert guardian is not None
    (server,) = psutil.Process(guardian).children()
    running = asyncio.create_task(engine.sample(turn("another", prompt, 1, max_tokens=200)))
    os.kill(server.pid, signal.SIGKILL)
    tokens = [*prompt, *first.token_ids]
    second = await engine.sample(turn("r", tokens, 1))
    expected = plain_logprobs(adapted, tokens, second.token_ids)
    assert torch.tensor(second.logprobs).sub(expected).abs().max() <= 1e-4
    assert len((await running).token_ids) == 200
    assert await engine.sample(turn("r", prompt, 1)) == first
