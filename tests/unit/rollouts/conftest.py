"""A rollout's surroundings without a model and without HTTP; time is virtual where it matters."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from rft.chat.hermes import HermesChatFormat
from rft.core.dataset import DatasetRow, parse_row
from rft.core.events import RolloutBegan, RoundRedone
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.messages import ToolCall, ToolResult
from rft.core.rollout import RolloutKey, Split
from rft.core.spec import Budgets
from rft.grader_gateway.grader import Grader, GroupGrader
from rft.rollouts.deadlines import Deadlines
from rft.rollouts.gateways import RolloutHost, ToolGateway
from rft.rollouts.hold import Hold
from rft.rollouts.live import LiveRollouts
from rft.rollouts.sampler import Sampler
from rft.rollouts.setup import Prompts, RolloutSetup, random_trace_id
from rft.rollouts.shards.executor import ShardedExecutor
from rft.rollouts.shards.told import ShardNotices
from rft.rollouts.shards.worker import OpenedRun, RunSession
from rft.testing.memory_inbox import CalledWorkers, MemoryInbox
from rft.testing.samplers import ScriptedSampler
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import virtual_clock
from rft.testing.samplers_tokenizer import ByteTokenizer

BOTH_EXECUTORS = ("test_executor", "test_graded_again", "test_group_grader", "test_missing_tools", "test_trials")
"""Modules whose tests hold for rollouts in the caller's loop and for those that workers run."""


@pytest.fixture
def chat_format() -> HermesChatFormat:
    return HermesChatFormat(ByteTokenizer())


@pytest.fixture
def row() -> DatasetRow:
    return make_row(0)


def make_row(index: int) -> DatasetRow:
    search = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
    question = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": f"Question {index}?"}]
    line = json.dumps({"messages": question, "tools": [search], "answer": index})
    parsed = parse_row(line, line_number=index + 1, index=index)
    assert isinstance(parsed, DatasetRow)
    return parsed


@pytest.fixture
def rows() -> list[DatasetRow]:
    return [make_row(index) for index in range(4)]


@pytest.fixture
def key() -> RolloutKey:
    return RolloutKey(job_id="ftjob-1", job_seed=7, split=Split.TRAIN, step=3, epoch=0, row_index=0, index=2)


MakeSetup = Callable[..., RolloutSetup]


async def answer_with_arguments(call: ToolCall, trace_id: str) -> str | Failure | ToolResult:
    del trace_id
    return f"result of {call.arguments}"


async def score_one(trace: FinishedTrace, trace_id: str) -> float | Failure:
    del trace, trace_id
    return 1.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is decided about rollouts is the same, whoever runs them."""
    name = "" if metafunc.module is None else metafunc.module.__name__.rpartition(".")[2]
    is_named = any(mark.args[0] == "rollouts_run" for mark in metafunc.definition.iter_markers("parametrize"))
    if name in BOTH_EXECUTORS and "rollouts_run" in metafunc.fixturenames and not is_named:
        metafunc.parametrize("rollouts_run", ["here", "by workers"], indirect=True)


@pytest.fixture
def rollouts_run(request: pytest.FixtureRequest) -> str:
    """Where: in the caller's loop, or given out in shards to two workers."""
    return getattr(request, "param", "here")


def given_out(setup: RolloutSetup) -> RolloutSetup:
    """The same, with rollouts that two workers run; everything between goes as JSON through an inbox."""

    async def open_run(announced: str) -> OpenedRun:
        del announced
        there = replace(setup, on_begun=None, hold=None, prompts=Prompts(), live=LiveRollouts())
        return OpenedRun(there, lambda version, adapter: None, lambda trace_id: (), nothing_to_close, nothing_to_close)

    inbox = MemoryInbox()
    sessions = [RunSession(name, inbox.of_worker(name), open_run) for name in ("worker-1", "worker-2")]
    hints = CalledWorkers([session.work for session in sessions])
    return replace(setup, executor=ShardedExecutor(inbox, hints, ShardNotices(lambda notice: None)))


async def nothing_to_close() -> None:
    """There is nothing to close."""


@pytest.fixture
def make_setup(chat_format: HermesChatFormat, rollouts_run: str) -> MakeSetup:
    """`make_setup([texts of the turns])`, or a whole sampler; every part can be replaced."""

    def make(
        turns: list[str] | Sampler,
        *,
        tools: ToolGateway | None = None,
        has_tool_servers: bool = True,
        grader: Grader | None = None,
        budgets: Budgets | None = None,
        max_context_tokens: int = 8192,
        group_grader: GroupGrader | None = None,
        host: RolloutHost | None = None,
        hold: Hold | None = None,
        deadlines: Deadlines | None = None,
        on_begun: Callable[[RolloutBegan], Awaitable[None]] | None = None,
        draw_trace_id: Callable[[], str] = random_trace_id,
        prints: HermesChatFormat | None = None,
        platform_failure_share: float = 0.25,
        on_redo: Callable[[RoundRedone], None] | None = None,
    ) -> RolloutSetup:
        sampler = (
            # Turns already written are counted in the prompt, so one script serves any number of rollouts at once.
            ScriptedSampler(
                chat_format.tokenizer,
                lambda _, prompt: turns[prompt.count("<|im_start|>assistant\n") - 1],
                max_context_tokens=max_context_tokens,
            )
            if isinstance(turns, list)
            else turns
        )
        setup = RolloutSetup(
            sampler=sampler,
            chat_format=prints or chat_format,
            tools=tools or FunctionTools(answer_with_arguments),
            has_tool_servers=has_tool_servers,
            grader=grader or FunctionGrader(score_one),
            grader_name="grader",
            budgets=budgets or Budgets(),
            temperature=1.0,
            model_name="starter",
            group_grader=group_grader,
            host=host,
            hold=hold,
            deadlines=deadlines or Deadlines(),
            on_begun=on_begun,
            draw_trace_id=draw_trace_id,
            platform_failure_share=platform_failure_share,
            on_redo=on_redo,
            clock=virtual_clock,
            wall_clock=virtual_clock,
        )
        return setup if rollouts_run == "here" else given_out(setup)

    return make
