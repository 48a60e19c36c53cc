"""Tools that refuse nearly every call are named, and no dataset is blamed for them."""

from collections.abc import Sequence

import pytest

from rft.core.events import Notice
from rft.core.group import Group
from rft.core.messages import ToolCall, ToolResult
from rft.core.turns import Trace, Turn
from rft.trainer.run_health import RunHealth, check_step, judge_tools
from tests.shared.by_hand import rollout_of

Answers = Sequence[tuple[str, int | str]]


def result(call: ToolCall, answer: int | str) -> ToolResult:
    """`answer`: an HTTP status, or the code of a mistake that never left the house."""
    code = answer if isinstance(answer, str) else f"http_{answer}" if answer >= 400 else None
    return ToolResult(
        call_id=call.call_id, name=call.name, output="out", is_model_error=code is not None, error_code=code,
        status=answer if isinstance(answer, int) else None, attempts=int(isinstance(answer, int)),
    )  # fmt: skip


def groups(*rollouts: Answers, rewards: tuple[float, float] = (0.0, 0.0)) -> list[Group]:
    """Groups of two; each rollout makes its calls in one turn."""
    made = list[Group]()
    for index in range(0, len(rollouts), 2):
        group = [rollout_of(Trace(()), reward) for reward in rewards]
        for one, answers in zip(group, rollouts[index : index + 2], strict=True):
            calls = [ToolCall(call_id=f"c{i}", name=name, arguments="{}") for i, (name, _) in enumerate(answers)]
            results = tuple(result(call, answer) for call, (_, answer) in zip(calls, answers, strict=True))
            one.trace.turns.append(Turn("", "", tuple(calls), results, 4, 1.0, 1.0))
        made.append(Group(index, tuple(group)))
    return made


def told(*rollouts: Answers, step: int = 3) -> list[Notice]:
    return list(judge_tools(RunHealth(), groups(*rollouts), step=step).notices)


@pytest.mark.parametrize(
    ("status", "message"),
    [(404, "check its URL"), (410, "check its URL"), (422, "check what it expects"), (400, "check what it expects")],
)
def test_a_tool_that_refuses_nearly_every_call_is_named_with_its_status(status: int, message: str) -> None:
    (notice,) = told([("search", status)] * 5 + [("cat", 200)] * 5, [("search", status)] * 5 + [("cat", 200)] * 5)
    assert notice.code == "refused_calls"
    assert notice.message.startswith(f"search answered {status} to nearly every call: {message}.")
    assert notice.data == {
        "tool": "search",
        "status": status,
        "step": 3,
        "calls": 10,
        "refused": 10,
        "refused_by_status": {str(status): 10},
    }


@pytest.mark.parametrize(
    "answers",
    [
        [("search", 422)] * 18 + [("search", 200)] * 2,
        [("search", 422)] * 4,
        [("search", "invalid_arguments")] * 20,
        [("search", 200)] * 20,
        [],
    ],
)
def test_what_is_not_nearly_every_call_or_never_reached_the_tool_is_not_told(answers: Answers) -> None:
    assert told(answers, []) == []


def test_each_tool_is_told_of_once_for_each_status() -> None:
    first = judge_tools(RunHealth(), groups([("search", 404)] * 9, []), step=1)
    assert len(first.notices) == 1
    again = judge_tools(first.health, groups([("search", 404)] * 9, []), step=2)
    assert (again.notices, again.health) == ((), first.health)
    other = judge_tools(again.health, groups([("search", 422)] * 9, []), step=3)
    assert [notice.data and notice.data["status"] for notice in other.notices] == [422]
    assert RunHealth.model_validate_json(other.health.model_dump_json()) == other.health


def no_signal(*rollouts: Answers) -> Notice:
    (notice,) = check_step(RunHealth(), groups(*rollouts), step=1, is_last=True).notices
    assert notice.code == "no_signal"
    return notice


def test_without_signal_unknown_tools_are_named_and_not_the_dataset() -> None:
    notice = no_signal([("open_page", "unknown_tool")] * 8, [("search", 404)] * 2 + [("dog", "unknown_tool")] * 1)
    assert "dataset" not in notice.message
    assert "grader" not in notice.message
    assert "9 named a tool that their row does not describe, most often 'open_page'" in notice.message
    assert "2 were answered 404 by search" in notice.message
    assert notice.data == {
        "steps": 1,
        "tool_calls": {"calls": 11, "failed_calls": 11, "errors_by_code": {"unknown_tool": 9, "http_404": 2}},
    }


def test_without_signal_the_dataset_is_named_where_the_tools_answered() -> None:
    notice = no_signal([("search", 404)] * 8, [("search", 200)])
    assert notice.message.startswith("No signal in this dataset")
    assert notice.data == {"steps": 1}
    assert no_signal([], []).message.startswith("No signal in this dataset")


def test_a_step_with_signal_says_nothing_of_it() -> None:
    mixed = groups([("search", 404)] * 8, [("search", 404)], rewards=(0.0, 1.0))
    assert check_step(RunHealth(), mixed, step=1).notices == ()
