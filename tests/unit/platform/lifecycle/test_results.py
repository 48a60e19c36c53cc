"""The result file and the usage of a run, from the data of its metrics events."""

import csv
import io
from typing import Any

import pytest

from rft.core.base import JsonObject
from rft.core.grade import TokenUsage
from rft.platform.lifecycle.results import result_row, to_csv
from rft.platform.lifecycle.usage import JudgeTokens, usage_of
from rft.platform.worker.metrics_event import GraderLabel, metrics_event
from tests.shared.train_events import stats, step_done

GRADERS = (GraderLabel("judge", "endpoint"),)


def data_of(step: int) -> JsonObject:
    """A step's metrics, as stored."""
    return metrics_event(step_done(step, 3, evaluated=step != 1), GRADERS).data


def table(*steps: int) -> list[dict[str, str]]:
    """What a reader of the file sees."""
    return list(csv.DictReader(io.StringIO(to_csv([result_row(data_of(step)) for step in steps]).decode())))


def test_the_file_has_the_contracts_columns() -> None:
    rows = table(0, 1, 2)
    assert list(rows[0])[:2] == ["step", "train_mean_reward"]
    assert {
        "full_valid_mean_reward",
        "full_valid_mean_reward_low",
        "full_valid_mean_reward_high",
        "completion_tokens_mean",
        "reasoning_tokens_mean",
        "mean_unresponsive_rewards",
        "sampling_logp_difference",
        "truncated_share",
        "scores/graders/endpoint/judge/train_reward_mean",
        "scores/graders/endpoint/judge/valid_reward_mean",
        "errors/graders/endpoint/judge/errors/train_sample_parse_error_mean",
        "errors/graders/endpoint/judge/errors/valid_sample_parse_error_count",
        "errors/graders/endpoint/judge/errors/train_other_error_count",
        "train_error_count_search",
        "tool_calls_to_search",
        "grader_error_count",
        "train_excluded",
        "train_resampled_rollouts",
        "loss",
    } <= set(rows[0])
    assert [row["step"] for row in rows] == ["0", "1", "2"]
    assert [row["sampling_logp_difference"] for row in rows] == ["", "0.001", "0.001"]
    durations = [
        rows[1][name] for name in ("sampling_duration", "training_duration", "eval_duration", "total_duration")
    ]
    assert durations == ["1.0", "2.0", "0.25", "4.0"]
    assert float(rows[2]["scores/graders/endpoint/judge/train_reward_mean"]) == pytest.approx(0.42)
    assert rows[2]["train_error_count_search"] == "3"


def test_what_a_step_does_not_have_is_empty_and_never_zero() -> None:
    baseline, first = table(0, 1)
    assert baseline["train_mean_reward"] == ""
    assert baseline["loss"] == ""
    assert first["full_valid_mean_reward"] == ""
    assert first["scores/graders/endpoint/judge/valid_reward_mean"] == ""


def test_grader_errors_are_the_rollouts_that_a_grader_left_without_a_score() -> None:
    step = step_done(2, 3)
    assert step.train is not None
    failing = step.train.model_copy(update={"failures_by_stage": {"grader": 3, "tool": 2, "sampler": 1}})
    data = metrics_event(step.model_copy(update={"train": failing}), GRADERS).data
    assert result_row(data)["grader_error_count"] == 3
    assert table(2)[0]["grader_error_count"] == "0", "a tool's failure is none of a grader's"


def test_awkward_names_survive_the_file() -> None:
    name = 'a "quoted", name\nover two lines'
    data = metrics_event(step_done(1, 1), (GraderLabel(name, "python"),)).data
    rows = list(csv.DictReader(io.StringIO(to_csv([result_row(data)]).decode(), newline="")))
    assert f"scores/graders/python/{name}/train_reward_mean" in rows[0]


def test_usage_is_summed_over_steps_splits_and_tools() -> None:
    judged: Any = data_of(2)
    judged["model_graders_token_usage"] = {
        "qwen": {"train_prompt_tokens": 10, "train_completion_tokens": 2, "eval_prompt_tokens": 5}
    }
    judged["usage"]["samples"]["train_reasoning_tokens_count"] = 30
    usage = usage_of([data_of(0), data_of(1), judged])
    assert (usage.training_seconds, usage.steps) == (12.0, 2)
    assert usage.rollouts == 4 * 2 + 4 * 2
    assert (usage.sampled_tokens, usage.reasoning_tokens) == (160 * 4, 30)
    assert usage.tool_calls == {"search": 8 * 4}
    assert usage.judge_tokens == {"qwen": JudgeTokens(prompt_tokens=15, completion_tokens=2)}


def test_what_was_measured_beside_the_steps_is_used_too() -> None:
    used = TokenUsage(prompt_tokens=7, completion_tokens=3, cached_tokens=1)
    measured = stats(0.5).model_copy(update={"reasoning_tokens_total": 11, "judge_usage": {"qwen": used}})
    usage = usage_of([data_of(0)], [measured, measured])
    assert (usage.rollouts, usage.sampled_tokens, usage.reasoning_tokens) == (4 + 2 * 4, 3 * 160, 22)
    assert usage.tool_calls == {"search": 3 * 8}
    assert usage.judge_tokens["qwen"] == JudgeTokens(prompt_tokens=14, completion_tokens=6, cached_tokens=2)


def test_a_run_without_steps_used_nothing() -> None:
    assert usage_of([]).model_dump(exclude={"tool_calls", "judge_tokens"}) == {
        "training_seconds": 0.0,
        "steps": 0,
        "rollouts": 0,
        "sampled_tokens": 0,
        "reasoning_tokens": 0,
    }
