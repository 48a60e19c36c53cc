"""A sampler that keeps something for a rollout is told whose turn it is, and when the last one is over."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from rft.core.dataset import DatasetRow
from rft.core.errors import SamplerError
from rft.core.messages import ToolCall
from rft.core.rollout import RolloutKey, Split
from rft.core.turns import Trace
from rft.rollouts.loop import run_rollout
from rft.rollouts.sampler import Sample, SampleRequest
from rft.rollouts.setup import RolloutSetup
from rft.rollouts.stats import to_rollout_done
from rft.testing.samplers import ScriptedSampler, tool_call_text
from rft.testing.samplers_gateways import FunctionTools
from rft.testing.samplers_slots import DelegatingEngine
from rft.testing.samplers_time import run_in_virtual_time
from rft.testing.samplers_tokenizer import ByteTokenizer

MakeSetup = Callable[..., RolloutSetup]


class Holder(DelegatingEngine):
    """Says two turns, unless it breaks."""

    def __init__(self, *, breaks: type[BaseException] | None = None) -> None:
        turns = [tool_call_text("search", '{"q": 1}'), "The answer is 4."]
        super().__init__(ScriptedSampler(ByteTokenizer(), lambda request, text: turns[text.count("result of")]))
        self._breaks = breaks
        self.asked: list[SampleRequest] = []
        self.began: list[tuple[str, int]] = []
        self.ended: list[str] = []

    async def sample(self, request: SampleRequest) -> Sample:
        self.asked.append(request)
        if self._breaks is not None:
            raise self._breaks
        return await super().sample(request)

    def rollout_began(self, rollout_id: str, version: int) -> None:
        assert not self.asked or self.asked[-1].rollout_id != rollout_id or self.ended[-1:] == [rollout_id]
        self.began.append((rollout_id, version))

    def rollout_ended(self, rollout_id: str) -> None:
        self.ended.append(rollout_id)


def test_all_turns_of_a_rollout_name_it_and_its_version(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    holder = Holder()
    rollout = run_in_virtual_time(run_rollout(row, key, make_setup(holder)))
    assert [request.rollout_id for request in holder.asked] == [rollout.trace_id] * 2
    assert [request.policy_version for request in holder.asked] == [0, 0]
    assert (holder.began, holder.ended) == ([(rollout.trace_id, 0)], [rollout.trace_id])


def test_rollouts_of_a_group_have_its_name_in_common(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    holder = Holder()
    others = [{"index": 3}, {"attempt": 1}, {"row_index": 1}, {"step": 4}]
    for changes in ({}, *others):
        run_in_virtual_time(run_rollout(row, key.model_copy(update=changes), make_setup(holder)))
    groups = [request.group_id for request in holder.asked[::2]]
    assert groups[0] == groups[1] == groups[2]
    assert len({groups[0], groups[3], groups[4]}) == 3


@pytest.mark.parametrize("error", [SamplerError, RuntimeError, asyncio.CancelledError])
def test_a_rollout_that_breaks_has_ended_too(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, error: type[BaseException]
) -> None:
    holder = Holder(breaks=error)
    with suppress(asyncio.CancelledError):
        run_in_virtual_time(run_rollout(row, key, make_setup(holder)))
    assert holder.ended == [holder.asked[0].rollout_id]


@pytest.mark.parametrize("error", [OSError, asyncio.CancelledError])
def test_a_rollout_that_cannot_be_told_of_keeps_nothing(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, error: type[BaseException]
) -> None:
    async def cannot(began: object) -> None:
        raise error

    holder = Holder()
    with suppress(error):
        run_in_virtual_time(run_rollout(row, key, make_setup(holder, on_begun=cannot)))
    assert [rollout_id for rollout_id, _ in holder.began] == holder.ended
    assert (len(holder.ended), holder.asked) == (1, [])


def test_it_tells_when_each_of_its_turns_was(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    async def slow(call: ToolCall, trace_id: str) -> str:
        await asyncio.sleep(3)
        return "result of it"

    rollout = run_in_virtual_time(run_rollout(row, key, make_setup(Holder(), tools=FunctionTools(slow))))
    first, second = to_rollout_done(rollout).turn_times
    assert (first.tools_s, second.tools_s) == (3, 0)
    assert second.began_at == first.began_at + first.sampling_s + 3
    assert first.completion_tokens + second.completion_tokens == rollout.sampled_tokens
    untimed = replace(rollout, trace=Trace(prompt_ids=()))
    untimed.trace.turns.extend(replace(turn, began_at=None) for turn in rollout.turns)
    assert to_rollout_done(untimed).turn_times == ()


def test_a_rollout_may_follow_the_policy_from_turn_to_turn(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    holder = Holder()

    async def publish_meanwhile(call: ToolCall, trace_id: str) -> str:
        assert trace_id not in holder.ended
        await holder.publish(7, Path())
        return "result of it"

    setup = replace(make_setup(holder, tools=FunctionTools(publish_meanwhile)), follows_policy=True)
    rollout = run_in_virtual_time(run_rollout(row, key, setup))
    assert [request.policy_version for request in holder.asked] == [0, 7]
    assert holder.began == [(rollout.trace_id, 0), (rollout.trace_id, 7)]
    assert holder.ended == [rollout.trace_id] * 2
    assert (rollout.policy_version, rollout.turn_versions) == (0, (0, 7))
    assert to_rollout_done(rollout).turn_versions == (0, 7)


@pytest.mark.parametrize(("follows_policy", "split"), [(False, Split.TRAIN), (True, Split.VALID), (True, Split.TEST)])
def test_otherwise_and_in_evaluations_it_keeps_the_version_that_it_began_with(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, follows_policy: bool, split: Split
) -> None:
    holder = Holder()

    async def publish_meanwhile(call: ToolCall, trace_id: str) -> str:
        await holder.publish(7, Path())
        return "result of it"

    setup = replace(make_setup(holder, tools=FunctionTools(publish_meanwhile)), follows_policy=follows_policy)
    rollout = run_in_virtual_time(run_rollout(row, key.model_copy(update={"split": split}), setup))
    assert [request.policy_version for request in holder.asked] == [0, 0]
    assert (rollout.turn_versions, to_rollout_done(rollout).turn_versions) == ((0, 0), None)
