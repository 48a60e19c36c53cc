"""Tables that fit, text of others that stays text, conversations that read like one."""

from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console, RenderableType

from rft.platform.cli.answers import Answer
from rft.platform.cli.job_resources import JOB
from rft.platform.cli.pages import page, rollout_page, table
from rft.platform.cli.rollout_resources import ROLLOUT
from rft.platform.cli.watch import event_lines

TRACE = "trace_ed036d06-1569-43ed-917b-c5788d99c024"


def shown(page: RenderableType | Callable[[Console], RenderableType], width: int = 100) -> str:
    """What a terminal of this width shows; a function makes the page for it."""
    console = Console(width=width, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(page(console) if callable(page) else page)
    return captured.get()


def rollouts(console: Console) -> RenderableType:
    """A list of one rollout."""
    return table(ROLLOUT, [Answer(rollout())], console)


def rollout(**more: Any) -> dict[str, Any]:
    """One rollout as the API has it."""
    return {
        "id": TRACE,
        "split": "train",
        "step": 3,
        "row_index": 4,
        "group_index": 1,
        "policy_version": 2,
        "reward": 0.25,
        "stop_reason": "max_tool_calls",
        "tool_calls": 2,
        "completion_tokens": 40,
        "duration_s": 1.5,
        "created_at": 0,
        "a field of a newer platform": [],
        **more,
    }


def conversation(*messages: dict[str, Any], outcome: dict[str, Any] | None = None, **more: Any) -> Answer:
    """One rollout with what was said."""
    record = {"outcome": outcome or {"reward": 0.25, "scores": {"judge": 0.25}}, "messages": [*messages], "turns": 1}
    return Answer(rollout(record=record, **more))


@pytest.mark.parametrize("width", [30, 50, 80, 120])
def test_ids_are_never_cut_and_nothing_is_wider_than_the_terminal(width: int) -> None:
    told = shown(rollouts, width)
    below = told[told.rindex("─") + 1 :].splitlines()
    pieces = [line.split()[0] for line in below if line.strip()]
    assert "".join(pieces) == TRACE
    assert (TRACE in told) == (width >= 80)
    assert max(map(len, told.splitlines())) <= width


def test_wide_terminals_show_every_column_and_narrow_ones_the_most_important() -> None:
    narrow = shown(rollouts, 80)
    assert "reward" in narrow
    assert "took" not in narrow
    assert "took" in shown(rollouts, 200)


def test_a_conversation_names_who_speaks_what_is_called_and_what_it_answered() -> None:
    told_of = conversation(
        {"role": "user", "content": "How much?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"call_id": "call_1", "name": "search", "arguments": '{"q":\n"revenue"}'}],
        },
        {"role": "tool", "content": "41", "tool_call_id": "call_1"},
        {"role": "assistant", "content": "It is 41.", "tool_calls": []},
    )
    lines = [line.strip() for line in shown(rollout_page(told_of)).splitlines() if line.strip()]
    assert lines[lines.index("user") :] == [
        "user",
        "How much?",
        "assistant",
        '-> search {"q": "revenue"}',
        "tool search",
        "41",
        "assistant",
        "It is 41.",
        "reward 0.250  (judge 0.250)  max tool calls",
    ]


def test_a_thought_stands_before_what_was_said() -> None:
    spoken = {"role": "assistant", "content": "42", "reasoning_content": "six times\nseven", "tool_calls": []}
    lines = [line.strip() for line in shown(rollout_page(conversation(spoken))).splitlines()]
    start = lines.index("assistant")
    assert lines[start : start + 4] == ["assistant", "six times", "seven", "42"]


def test_a_failed_rollout_says_why_it_does_not_count() -> None:
    failure = {"stage": "tool", "code": "timeout", "message": "search did not answer"}
    told = shown(rollout_page(conversation(outcome=failure, reward=None)))
    assert "left out of training, no reward (tool: timeout: search did not answer)" in told


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"status": "running"}, "under way: its conversation is shown once it has ended"),
        ({"status": "abandoned"}, "abandoned, counted nowhere: it was cut off, or its step was done again"),
        ({"status": "abandoned", "superseded_by": "trace_2"}, "was done again; trace_2 took its place"),
    ],
)
def test_a_rollout_without_an_end_says_why(more: dict[str, Any], message: str) -> None:
    lines = shown(rollout_page(Answer(rollout(record=None, **more)))).splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["trace", "place", "policy"]
    assert lines[-1].rstrip().endswith(message)


def test_text_of_models_and_customers_neither_steers_nor_styles() -> None:
    evil = "\x1b]0;title\x07\x1b[2J[bold red]loud[/] [/nothing]"
    safe = "\ufffd]0;title\ufffd\ufffd[2J[bold red]loud[/] [/nothing]"
    arguments = {"call_id": evil, "name": evil, "arguments": evil}
    told_of = conversation(
        {"role": evil, "content": evil, "tool_calls": [arguments]},
        {"role": "tool", "content": evil, "tool_call_id": evil},
        outcome={"reward": 0.25, "scores": {evil: 0.25}},
    )
    told = shown(rollout_page(told_of), 200)
    assert told.count(safe) == 7
    job: dict[str, Any] = {
        "id": evil,
        "created_at": 0,
        "model": evil,
        "status": evil,
        "training_file": evil,
        "metadata": {evil: evil},
    }
    event: dict[str, Any] = {"id": "e", "created_at": 0, "level": evil, "message": evil, "type": "message"}
    told += shown(lambda console: page(JOB, Answer(job), console), 200)
    told += shown(lambda console: table(JOB, [Answer(job)], console), 200)
    told += shown(event_lines([Answer(event)]), 200)
    assert "\x1b]" not in told
    assert "\x1b[2J" not in told
    assert "\x07" not in told


def test_events_read_like_a_log() -> None:
    newest_first: list[dict[str, Any]] = [
        {"id": str(number), "created_at": number // 2, "level": "info", "message": f"event {number}", "type": "message"}
        for number in (3, 2, 1)
    ]
    lines = shown(event_lines([Answer(event) for event in newest_first])).splitlines()
    assert [line[-1] for line in lines] == ["1", "2", "3"]
