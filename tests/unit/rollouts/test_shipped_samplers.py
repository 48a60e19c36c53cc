"""The samplers shipped for tests keep the contract of real engines."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rft.chat.hermes import HermesChatFormat
from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.errors import RftError, SamplerError
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.graders import EndpointGrader
from rft.core.hyperparameters import Hyperparameters, resolve
from rft.core.messages import ToolCall
from rft.core.rollout import RolloutKey, Split, StopReason
from rft.core.spec import RunSpec, ToolServer
from rft.rollouts.executor import run_step
from rft.rollouts.group import StepRow
from rft.rollouts.loop import run_rollout
from rft.rollouts.sampler import FinishReason, Sampler, SampleRequest, check_sample
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers import FakeSampler, fake_engine
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_oracle import PLANS, OracleCall, OraclePlan, OracleSampler, oracle_engine
from rft.testing.samplers_time import run_in_virtual_time

MakeSetup = Callable[..., RolloutSetup]
SPEC = RunSpec(
    job_id="ftjob-1",
    seed=1,
    base_model="starter",
    model_name="starter",
    hyperparameters=resolve(Hyperparameters(), train_rows=4),
    tools=(ToolServer(name="search", server_url="http://127.0.0.1:1/search"),),
    grader=EndpointGrader(name="grader", url="http://127.0.0.1:9/grade"),
)


def request(
    seed: int = 1, prompt: tuple[int, ...] = (1, 2, 3), max_tokens: int = 50, temperature: float = 1.0
) -> SampleRequest:
    return SampleRequest(f"r{seed}", prompt, max_tokens, (2,), seed, temperature)


def fake() -> FakeSampler:
    return FakeSampler(vocabulary=range(10, 40), stop_token_id=2, words=(3, 12))


async def test_answers_depend_on_seed_and_prompt_alone() -> None:
    alone = [await fake().sample(request(seed)) for seed in range(20)]
    sampler = fake()
    together = await asyncio.gather(*(sampler.sample(request(seed)) for seed in reversed(range(20))))
    assert list(reversed(together)) == alone
    assert len({sample.token_ids for sample in alone}) == 20
    assert await fake().sample(request(1, prompt=(1, 2, 4))) != alone[1]


async def test_greedy_ignores_the_seed() -> None:
    first, second = [await fake().sample(request(seed, temperature=0.0)) for seed in (1, 2)]
    assert first == second


async def test_samples_keep_the_engine_contract() -> None:
    sampler: Sampler = fake()
    reasons: set[FinishReason] = set()
    for seed in range(50):
        asked = request(seed, max_tokens=8)
        sample = await sampler.sample(asked)
        check_sample(sample, asked)
        reasons.add(sample.finish_reason)
    assert reasons == {FinishReason.STOP, FinishReason.LENGTH}


async def test_versions_and_close() -> None:
    sampler = fake()
    assert sampler.policy_version == 0
    await sampler.publish(3, Path("adapter"))
    assert sampler.policy_version == 3
    await sampler.close()
    await sampler.close()
    with pytest.raises(SamplerError, match="closed"):
        await sampler.sample(request())


async def test_a_prompt_beyond_the_context_is_refused() -> None:
    with pytest.raises(SamplerError, match="context"):
        await fake().sample(request(prompt=(1,) * 9000))


def test_a_step_of_fakes_is_the_same_whatever_the_latencies(
    rows: list[DatasetRow], make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    def traces(latency: Callable[[SampleRequest], float]) -> list[list[int]]:
        letters = chat_format.tokenizer.encode("abcdef")
        sampler = FakeSampler(
            vocabulary=letters,
            stop_token_id=chat_format.stop_token_ids[0],
            set_pieces=[chat_format.tokenizer.encode('<tool_call>{"name": "search", "arguments": {}}</tool_call>')],
            latency=latency,
        )
        step = run_step(
            [StepRow(row, 0) for row in rows],
            setup=make_setup(sampler),
            job_id="ftjob-1",
            job_seed=5,
            step=2,
            group_size=4,
            replacement_share=0.1,
            on_rollout=lambda _, __: None,
        )
        groups = run_in_virtual_time(step).groups
        return [rollout.trace.token_ids for group in groups for rollout in group.rollouts]

    assert traces(lambda _: 0.0) == traces(lambda asked: float(asked.seed % 97))


def plan(item: JsonObject) -> OraclePlan:
    look = OracleCall(name="search", arguments={"q": "é"})
    return OraclePlan(calls=(look, look), answer=f"Answer: {item['answer']}")


async def page(call: ToolCall, trace_id: str) -> str:
    return "a page"


async def judge(trace: FinishedTrace, trace_id: str) -> float:
    question, answer = trace.messages[1].content, trace.messages[-1].content
    return float(answer == question.replace("Question", "Answer:").replace("?", "").replace("  ", " "))


def key(row: DatasetRow) -> RolloutKey:
    return RolloutKey(job_id="j", job_seed=1, split=Split.VALID, step=0, epoch=0, row_index=row.index, index=0)


def test_the_oracle_follows_its_plan_on_every_row(
    rows: list[DatasetRow], make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    tools = FunctionTools(page)
    setup = make_setup(OracleSampler(rows, plan, chat_format), tools=tools, grader=FunctionGrader(judge))
    for row in rows:
        rollout = run_in_virtual_time(run_rollout(row, key(row), setup))
        assert rollout.outcome == Grade(reward=1.0, scores={"grader": 1.0}, grader="grader")
        assert rollout.stop_reason is StopReason.COMPLETED
        assert [turn.tool_calls[0].arguments for turn in rollout.trace.turns[:-1]] == ['{"q": "é"}'] * 2
    assert len(tools.calls) == 2 * len(rows)


async def test_the_oracle_refuses_a_row_it_does_not_know(rows: list[DatasetRow], chat_format: HermesChatFormat) -> None:
    with pytest.raises(RftError, match="no plan"):
        await OracleSampler(rows, plan, chat_format).sample(request(prompt=(1, 2, 3)))


def test_an_oracle_engine_is_a_directory_of_plans(
    rows: list[DatasetRow], make_setup: MakeSetup, chat_format: HermesChatFormat, tmp_path: Path
) -> None:
    lines = [json.dumps({"row": row.item, "plan": plan(row.item).model_dump()}) for row in rows]
    (tmp_path / PLANS).write_text("\n".join(lines))
    setup = make_setup(oracle_engine(tmp_path, SPEC, chat_format), grader=FunctionGrader(judge))
    assert run_in_virtual_time(run_rollout(rows[3], key(rows[3]), setup)).reward == 1.0
    (tmp_path / PLANS).write_text('{"row": {}, "plan": {"calls": [], "answer": ""}}')
    with pytest.raises(RftError, match="line 1 at messages: missing"):
        oracle_engine(tmp_path, SPEC, chat_format)


def test_a_fake_engine_calls_the_tools_of_its_spec(
    rows: list[DatasetRow], make_setup: MakeSetup, chat_format: HermesChatFormat, tmp_path: Path
) -> None:
    tools = FunctionTools(page)
    setup = make_setup(fake_engine(tmp_path, SPEC, chat_format), tools=tools)
    outcomes = [run_in_virtual_time(run_rollout(row, key(row), setup)).outcome for row in rows]
    assert all(isinstance(outcome, Grade) for outcome in outcomes)
    assert {call.name for call, _ in tools.calls} == {"search"}
