"""Which calls are made again, and which follow which, under two policies."""

import pytest

from rft.core.rollout import Split
from rft.platform.rollouts.call_change import CallsOfRollout, MadeCall, call_change


def rollout(row: int, *calls: str, trace: str = "trace_a") -> CallsOfRollout:
    """Calls written as `tool:arguments`."""
    parts = [call.split(":") for call in calls]
    return CallsOfRollout(row, trace, [MadeCall(tool, f"digest of {text}", text) for tool, text in parts])


BEFORE = [
    rollout(1, "search:a", "search:a", "cat:a", "search:a", trace="trace_b"),
    rollout(2, "search:a", "search:b", "cat:a"),
    rollout(3, "list:a", "list:a"),
]
AFTER = [rollout(1, "search:a", "cat:a"), rollout(2), rollout(2, ":x", ":x"), rollout(4, "list:a", "list:a")]


def test_a_call_is_made_again_with_the_same_arguments_in_the_same_rollout() -> None:
    change = call_change((0, BEFORE), (8, AFTER), Split.VALID)
    assert change.calls_before.model_dump() == {"rollouts": 2, "calls": 7, "repeated": 2, "repeating_rollouts": 1}
    assert change.calls_after.model_dump() == {"rollouts": 3, "calls": 4, "repeated": 1, "repeating_rollouts": 1}
    assert [one.model_dump() for one in change.repeated] == [
        {"tool": "search", "arguments": "a", "before": 2, "after": 0, "trace_id": "trace_b"},
        {"tool": "(unreadable)", "arguments": "x", "before": 0, "after": 1, "trace_id": "trace_a"},
    ]


def test_pairs_are_counted_per_rollout_of_rows_that_both_have() -> None:
    change = call_change((0, BEFORE), (8, AFTER), Split.VALID)
    pairs = {(pair.first, pair.second, pair.is_same): (pair.before, pair.after) for pair in change.pairs}
    assert pairs == {
        ("search", "cat", False): (1.0, pytest.approx(1 / 3)),
        ("search", "search", True): (0.5, 0.0),
        ("search", "search", False): (0.5, 0.0),
        ("cat", "search", False): (0.5, 0.0),
        ("(unreadable)", "(unreadable)", True): (0.0, pytest.approx(1 / 3)),
    }
    assert (change.pairs[0].first, change.pairs[0].second) == ("search", "cat"), "the most frequent first"


def test_only_the_most_frequent_are_told() -> None:
    many = [rollout(1, *(f"tool{n}:a" for n in range(60) for _ in range(2)))]
    change = call_change((0, many), (8, many), Split.VALID)
    assert (len(change.pairs), len(change.repeated)) == (20, 10)
    assert change.calls_before.repeated == 60


def test_without_a_common_row_there_is_nothing() -> None:
    change = call_change((0, [rollout(1, "cat:a", "cat:a")]), (8, [rollout(2, "cat:a")]), Split.VALID)
    assert (change.calls_before.rollouts, change.calls_after.rollouts) == (0, 0)
    assert (change.pairs, change.repeated) == ([], [])
