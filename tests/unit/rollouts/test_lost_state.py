"""A server that keeps state and lost it in a restart refuses grades for ever: conversations are begun anew."""

import asyncio

import pytest

from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.messages import ToolCall
from rft.core.spec import HoldRule
from rft.testing.samplers import tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock
from tests.unit.rollouts.conftest import MakeSetup
from tests.unit.rollouts.test_trials import Book

TURNS = [tool_call_text("search", '{"q": 1}'), "The answer is 4."]
RULE = HoldRule(excluded_share=0.25, max_s=3600.0, first_trial_s=2.0, max_trial_s=60.0)
ROLLOUTS = 16


def failure(message: str, *, status: int | None) -> Failure:
    code = FailureCode.CONNECTION_RESET if status is None else FailureCode.SERVER_ERROR
    return Failure(stage=Stage.GRADER, code=code, message=message, endpoint="grader", status=status)


class Server:
    """Keeps conversations in memory. Until `down_s` its grades are slow, and break; then it has `lost` what it knew."""

    def __init__(self, *, down_s: float, is_lost: bool, answers: bool) -> None:
        self.known, self.begun, self.refused = set[str](), set[str](), 0
        self._down_s, self._is_lost, self._answers = down_s, is_lost, answers

    async def find(self, call: ToolCall, trace_id: str) -> str:
        del call
        self.begun.add(trace_id)
        self.known.add(trace_id)
        return "here"

    async def grade(self, trace: FinishedTrace, trace_id: str) -> float | Failure:
        del trace
        if virtual_clock() < 5.0:
            await asyncio.sleep(5.0 - virtual_clock())
            if self._is_lost:
                self.known.clear()
            return failure("broke the connection", status=None)
        if virtual_clock() < self._down_s:
            return failure("answered 503", status=503 if self._answers else None)
        if trace_id in self.known:
            return 1.0
        self.refused += 1
        return failure("answered 503: nothing is known of this rollout", status=503)


def graded(rows: list[DatasetRow], make_setup: MakeSetup, server: Server) -> Book:
    """All that a round tells, whose rollouts all have a grade in the end."""
    book = Book()
    setup = make_setup(
        TURNS, tools=FunctionTools(server.find), grader=FunctionGrader(server.grade), hold=book.hold(RULE)
    )
    done = run_in_virtual_time(book.round(rows, setup))
    rollouts = [rollout for group in done.groups for rollout in group.rollouts]
    assert [rollout.reward for rollout in rollouts] == [1.0] * ROLLOUTS
    return book


def test_conversations_that_a_restart_lost_are_begun_anew_soon(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    server = Server(down_s=0.0, is_lost=True, answers=True)
    book = graded(rows, make_setup, server)
    assert len(server.begun) == 2 * ROLLOUTS, "each once more, and none in vain"
    [(began_s, began), (ended_s, ended)] = book.kinds
    assert (began, ended) == ("hold_began", "hold_ended")
    assert ended_s - began_s < 60


@pytest.mark.parametrize("answers", [True, False])
def test_an_outage_of_the_grader_costs_hardly_any_conversation(
    rows: list[DatasetRow], make_setup: MakeSetup, answers: bool
) -> None:
    """Decision 0004: tools are not called for nothing, and may act on the world."""
    server = Server(down_s=600.0, is_lost=False, answers=answers)
    graded(rows, make_setup, server)
    again = len(server.begun) - ROLLOUTS
    assert again <= 5 if answers else again == 0
    assert server.refused == 0
