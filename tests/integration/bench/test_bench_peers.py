"""`make bench-peers` at toy size, so that it still runs when somebody needs its figures. Nothing here is a timing."""

from dataclasses import replace

import pytest

from tests.bench.peer_rollouts import CALLS, Burst, mock_servers, our_burst
from tests.bench.peer_steps import Step
from tests.bench.peers import in_turns, judge_rollouts, judge_steps

STEP, PEER_STEP = Step(2.0, 3.0, 192, 4000), Step(20.0, 21.0, 192, 4000)
BURST = Burst(wall_s=1.0, cpu_s=1.0, rollouts=8, answered=8, turns=32, tool_calls=24)


async def test_our_rollouts_do_the_work_that_peers_are_asked_for() -> None:
    async with mock_servers(latency_s=0.0) as servers:
        burst = await our_burst(servers, 8)
    assert (burst.rollouts, burst.answered, burst.turns, burst.tool_calls) == (8, 8, 8 * (CALLS + 1), 8 * CALLS)


def test_sides_take_turns_in_who_is_first() -> None:
    order: list[str] = []

    def side(name: str) -> str:
        order.append(name)
        return name

    assert in_turns(3, lambda: side("peer"), lambda: side("ours")) == [("peer", "ours")] * 3
    assert order == ["peer", "ours", "ours", "peer", "peer", "ours"]


def test_steps_are_held_against_the_bar_by_the_least_ratio() -> None:
    good, poor = ([PEER_STEP], [STEP]), ([replace(PEER_STEP, whole_s=11.0)], [STEP])
    judged = judge_steps([good, good])
    assert (judged["passed"], judged["ratio_of_steps"]["median"], judged["ratio_of_rollouts"]["median"]) == (
        True,
        7,
        10,
    )
    assert not judge_steps([good, poor, good])["passed"]


@pytest.mark.parametrize("changes", [{"tool_calls": 191}, {"sampled_tokens": 3999}])
def test_steps_of_other_work_prove_nothing(changes: dict[str, int]) -> None:
    judged = judge_steps([([PEER_STEP], [replace(STEP, **changes)])])
    assert (judged["is_same_work"], judged["passed"]) == (False, False)


def test_bursts_are_held_against_the_bar_by_the_least_ratio() -> None:
    good = (replace(BURST, wall_s=6.0), BURST)
    assert judge_rollouts([good], 8)["passed"]
    assert not judge_rollouts([good, (replace(BURST, wall_s=4.9), BURST)], 8)["passed"]
    assert not judge_rollouts([(replace(good[0], answered=7), BURST)], 8)["passed"]
