"""A sampler that keeps something for a rollout is told whose turn it is, and when the last one is over."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from rft.core.dataset import DatasetRow
from rft.core.errors import SamplerError
from rft.core.rollout import RolloutKey
from rft.rollouts.loop import run_rollout
from rft.rollouts.sampler import Sample, SampleRequest
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers import ScriptedSampler, tool_call_text
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
        assert not self.asked or self.asked[-1].rollout_id != rollout_id
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
