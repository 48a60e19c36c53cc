"""Tokens are told exactly, and what rollouts have in common only once."""

from collections.abc import Sequence

import pytest

from rft.core.events import EventLine, RatiosMeasured, TokensSampled, TrainEvent
from rft.core.token_record import pack_float16, unpack_tokens
from rft.core.turns import Trace
from rft.trainer.samples import RowRatios
from rft.trainer.token_log import TokenLog
from tests.shared.by_hand import rollout_of, trace_of


def told_of(traces: Sequence[Trace]) -> list[TokensSampled]:
    """What one process tells of these, as it is read back from the log."""
    events: list[TrainEvent] = []
    log = TokenLog(events.append, lambda token: f"<{token}>".encode())
    for index, trace in enumerate(traces):
        log.sampled(rollout_of(trace, 1.0, index=index))
    lines = [EventLine(seq=seq, at=1.0, event=event) for seq, event in enumerate(events, start=1)]
    read = [EventLine.model_validate_json(line.model_dump_json()).event for line in lines]
    return [event for event in read if isinstance(event, TokensSampled)]


def test_tokens_come_back_as_they_were_sampled() -> None:
    trace = trace_of([1, 2, 3], ("sampled", [4, 5]), ("tool", [6, 7]), ("sampled", [9]))
    [told] = told_of([trace])
    assert told.trace_id == "trace_0_0"
    assert told.new_prompt is not None
    assert unpack_tokens(told.new_prompt).token_ids_T == trace.prompt_ids
    completion = unpack_tokens(told.completion)
    assert completion.token_ids_T == tuple(trace.completion_ids_T)
    assert completion.mask_T == tuple(trace.mask_T)
    assert completion.logprobs_T == tuple(trace.logprobs_T)
    assert told.new_pieces == {token: f"<{token}>".encode() for token in trace.token_ids}


def test_a_prompt_and_a_token_are_told_once() -> None:
    first, same, other = told_of(
        [trace_of([1, 2], ("sampled", [3])), trace_of([1, 2], ("sampled", [3, 4])), trace_of([2, 1], ("sampled", [4]))]
    )
    assert same.prompt == first.prompt != other.prompt
    assert (same.new_prompt, same.new_pieces) == (None, {4: b"<4>"})
    assert other.new_prompt is not None
    assert other.new_pieces == {}


def test_of_a_rollout_without_tokens_nothing_is_told() -> None:
    assert told_of([Trace(())]) == []
    [told] = told_of([Trace((1,))])
    assert unpack_tokens(told.completion).token_ids_T == (), "it broke off before its first turn"


@pytest.mark.parametrize("rows", [0, 2])
def test_each_trained_rollout_is_told_of(rows: int) -> None:
    events: list[TrainEvent] = []
    ratios = [RowRatios(f"trace_{row}", 0.5 + row, pack_float16([0.25] * row)) for row in range(rows)]
    TokenLog(events.append, lambda token: b"").measured(ratios)
    assert events == [
        RatiosMeasured(trace_id=f"trace_{row}", advantage=0.5 + row, log_ratios=pack_float16([0.25] * row))
        for row in range(rows)
    ]
