"""The contract's metrics event, key by key."""

from typing import Any, cast

import pytest

from rft.core.events import StepDone
from rft.core.grade import TokenUsage
from rft.core.graders import EndpointGrader, MultiGrader, RulerGrader, StringCheckGrader, TextSimilarityGrader
from rft.core.step_record import GraderStats
from rft.platform.worker.grader_metrics import GraderLabel, grader_labels
from rft.platform.worker.metrics_event import flat_metrics, metrics_event
from tests.shared.train_events import stats, step_done

JUDGE = (GraderLabel("judge", "endpoint"),)
CONTRACT_KEYS = {
    *("step", "total_steps", "train_mean_reward", "full_valid_mean_reward", "full_valid_mean_parse_error"),
    *("reasoning_tokens_mean", "valid_reasoning_tokens_mean", "completion_tokens_mean", "mean_unresponsive_rewards"),
    *("model_graders_token_usage", "scores", "usage", "timing", "errors"),
}


def test_every_key_of_the_contract_is_there() -> None:
    event = metrics_event(step_done(10, 20), JUDGE)
    assert event.data.keys() >= CONTRACT_KEYS
    assert event.message == (
        "Step 10/20 , train mean reward=0.50, full validation mean reward=0.70, full validation mean parse error=0.00"
    )
    assert event.data["scores"] == {
        "train_reward_mean": 0.5,
        "valid_reward_mean": 0.7,
        "graders": [{"name": "judge", "type": "endpoint", "train_reward_mean": 0.5, "valid_reward_mean": 0.7}],
    }
    assert event.data["timing"] == {
        "step": {
            "sampling": 1.0,
            "tools": 0.5,
            "grading": 0.25,
            "training": 2.0,
            "eval": 0.25,
            "full_iteration": 4.0,
        },
        "graders": [
            {
                "name": "judge",
                "type": "endpoint",
                "train_execution_latency_mean": 0.1,
                "valid_execution_latency_mean": 0.1,
            }
        ],
    }


def test_a_step_that_was_not_evaluated_says_nothing_about_validation() -> None:
    event = metrics_event(step_done(1, 20, evaluated=False), JUDGE)
    assert event.message == "Step 1/20 , train mean reward=0.41"
    assert event.data["full_valid_mean_reward"] is None
    assert event.data["full_valid_mean_parse_error"] is None


def test_the_baseline_says_nothing_about_training() -> None:
    event = metrics_event(step_done(0, 20), JUDGE)
    assert event.message == "Step 0/20 , full validation mean reward=0.60, full validation mean parse error=0.00"
    assert (event.data["train_mean_reward"], event.data["optimization"]) == (None, None)


def test_validation_rewards_have_their_interval() -> None:
    data = metrics_event(step_done(10, 20), JUDGE).data
    assert (data["full_valid_mean_reward_low"], data["full_valid_mean_reward_high"]) == pytest.approx((0.5, 0.8))
    unmeasured = metrics_event(step_done(1, 20, evaluated=False), JUDGE).data
    assert (unmeasured["full_valid_mean_reward_low"], unmeasured["full_valid_mean_reward_high"]) == (None, None)


def test_a_reward_is_the_mean_that_its_interval_is_of() -> None:
    lost_hard_rows = stats(0.5).model_copy(update={"reward_mean": 12 / 13})
    event = metrics_event(step_done(1, 2).model_copy(update={"train": lost_hard_rows, "valid": lost_hard_rows}), JUDGE)
    assert (event.data["train_mean_reward"], event.data["full_valid_mean_reward"]) == (0.5, 0.5)
    assert event.message.startswith("Step 1/2 , train mean reward=0.50, full validation mean reward=0.50,")
    scores: Any = event.data["scores"]
    assert (scores["train_reward_mean"], scores["valid_reward_mean"]) == (0.5, 0.5)


def test_nothing_graded_is_no_reward_and_not_zero() -> None:
    nothing = stats(0.0).model_copy(update={"reward_mean": None, "reward_estimate": None})
    step = step_done(3, 4, evaluated=False).model_copy(update={"train": nothing})
    event = metrics_event(step, JUDGE)
    assert event.data["train_mean_reward"] is None
    assert event.message == "Step 3/4 , train mean reward=n/a"


def test_thoughts_are_counted_apart_and_are_zero_where_there_were_none() -> None:
    thought = stats(0.5).model_copy(update={"reasoning_tokens_mean": 12.5, "reasoning_tokens_total": 50})
    data = cast("dict[str, Any]", metrics_event(step_done(2, 4).model_copy(update={"train": thought}), JUDGE).data)
    assert (data["reasoning_tokens_mean"], data["valid_reasoning_tokens_mean"]) == (12.5, 0.0)
    samples = data["usage"]["samples"]
    assert (samples["train_reasoning_tokens_mean"], samples["train_reasoning_tokens_count"]) == (12.5, 50)
    assert (samples["valid_reasoning_tokens_mean"], samples["valid_reasoning_tokens_count"]) == (0.0, 0)


def test_tools_are_told_nested_and_flat() -> None:
    data = metrics_event(step_done(2, 4), JUDGE).data
    assert data["tools"] == [
        {
            "name": "search",
            "train_calls_per_rollout_mean": 2.0,
            "train_calls_count": 8,
            "train_output_tokens_mean": 12.5,
            "train_execution_latency_mean": 0.2,
            "train_error_count": 3,
            "train_errors_by_code": {"timeout": 1, "bad_arguments": 2},
            "train_client_errors_by_status": {"422": 2},
            "valid_calls_per_rollout_mean": 2.0,
            "valid_calls_count": 8,
            "valid_output_tokens_mean": 12.5,
            "valid_execution_latency_mean": 0.2,
            "valid_error_count": 3,
            "valid_errors_by_code": {"timeout": 1, "bad_arguments": 2},
            "valid_client_errors_by_status": {"422": 2},
        }
    ]
    assert (data["tool_calls_to_search"], data["train_error_count_search"]) == (2.0, 3)


def test_a_tool_that_nobody_called_was_called_zero_times() -> None:
    idle = stats(0.5).model_copy(update={"tools": ()})
    step = step_done(2, 4).model_copy(update={"valid": idle})
    data = cast("dict[str, Any]", metrics_event(step, JUDGE, ("cat", "search")).data)
    cat, search = data["tools"]
    assert (cat["name"], cat["train_calls_count"], cat["train_calls_per_rollout_mean"]) == ("cat", 0, 0.0)
    assert (cat["train_error_count"], cat["train_errors_by_code"]) == (0, {})
    assert cat["train_client_errors_by_status"] == {}
    assert (cat["train_output_tokens_mean"], cat["train_execution_latency_mean"]) == (None, None)
    assert (search["train_calls_count"], search["valid_calls_count"]) == (8, 0)
    assert (data["tool_calls_to_cat"], data["valid_tool_calls_to_search"]) == (0.0, 0.0)
    assert (data["train_error_count_cat"], data["valid_error_count_search"]) == (0, 0)


def test_a_split_that_did_not_run_says_nothing_about_tools() -> None:
    data = cast("dict[str, Any]", metrics_event(step_done(1, 4, evaluated=False), JUDGE, ("cat",)).data)
    assert (data["tools"][0]["train_calls_count"], data["tools"][0]["valid_calls_count"]) == (0, None)
    assert "valid_tool_calls_to_cat" not in data


def test_calls_per_rollout_are_unknown_where_nothing_was_graded() -> None:
    broken = stats(0.0).model_copy(update={"graded": 0, "tools": ()})
    step = step_done(1, 4, evaluated=False).model_copy(update={"train": broken})
    (tool,) = cast("dict[str, Any]", metrics_event(step, JUDGE, ("cat",)).data)["tools"]
    assert (tool["train_calls_count"], tool["train_calls_per_rollout_mean"]) == (0, None)


def test_failures_are_blamed_on_the_grader_only_when_it_had_them() -> None:
    seen = GraderStats(name="judge", gradings=4, latency_mean_s=0.1, errors_by_code={"timeout": 2, "invalid_score": 1})
    train = stats(0.4).model_copy(update={"failures_by_code": {"timeout": 3, "invalid_score": 1}, "graders": (seen,)})
    step = step_done(2, 4, evaluated=False).model_copy(update={"train": train})
    (only,) = cast("dict[str, Any]", metrics_event(step, JUDGE).data)["errors"]["graders"]
    assert (only["train_other_error_count"], only["train_other_error_mean"]) == (3, 0.75)
    assert (only["train_sample_parse_error_count"], only["valid_sample_parse_error_count"]) == (0, None)


def test_unanswered_is_the_share_that_stopped_without_an_answer() -> None:
    unanswered = flat_metrics(step_done(1, 2))["mean_unresponsive_rewards"]
    assert isinstance(unanswered, float)
    assert abs(unanswered - 1 / 3) < 1e-12


def test_graders_are_named_as_the_customer_named_them() -> None:
    assert grader_labels(EndpointGrader(name="judge", url="http://127.0.0.1:9")) == JUDGE
    exact = StringCheckGrader(name="a", input="{{sample.output_text}}", reference="{{item.answer}}", operation="eq")
    close = TextSimilarityGrader(name="b", input="x", reference="y", evaluation_metric="bleu")
    multi = MultiGrader(name="both", graders={"exact": exact, "close": close}, calculate_output="exact + close")
    assert grader_labels(multi) == (
        GraderLabel("exact", "string_check", is_part=True),
        GraderLabel("close", "text_similarity", is_part=True),
        GraderLabel("both", "multi"),
    )
    assert grader_labels(exact) == (GraderLabel("a", "string_check"),)
    assert grader_labels(RulerGrader(name="r", model="m")) == (GraderLabel("r", "ruler", "m"),)


SPENT = {"m": TokenUsage(prompt_tokens=300, completion_tokens=60, cached_tokens=90)}


def seen(name: str, *, is_part: bool = False, **more: object) -> GraderStats:
    """What a step tells of one grader that was asked four times."""
    known = {"gradings": 4, "latency_mean_s": 0.1, "errors_by_code": {}}
    return GraderStats.model_validate({"name": name, "is_part": is_part, **known, **more})


def judged(*graders: GraderStats) -> StepDone:
    """A step whose eight training rollouts were graded by these, and which was not evaluated."""
    changed = stats(0.4).model_copy(update={"rollouts": 8, "judge_usage": SPENT, "graders": graders})
    return step_done(2, 4, evaluated=False).model_copy(update={"train": changed})


def told(step: StepDone, *labels: GraderLabel) -> dict[str, Any]:
    return cast("dict[str, Any]", metrics_event(step, labels).data)


def test_tokens_of_judges_are_told_by_model_and_by_grader() -> None:
    data = told(judged(seen("score", usage=SPENT)), GraderLabel("score", "score_model", "m"))
    assert data["model_graders_token_usage"] == {
        "m": {
            "train_prompt_tokens": 300,
            "train_completion_tokens": 60,
            "train_cached_tokens": 90,
            "eval_prompt_tokens": 0,
            "eval_completion_tokens": 0,
            "eval_cached_tokens": 0,
        }
    }
    (score,) = data["usage"]["graders"]
    assert (score["name"], score["model"]) == ("score", "m")
    assert (score["train_prompt_tokens_count"], score["train_prompt_tokens_mean"]) == (300, 75.0)
    assert (score["valid_prompt_tokens_count"], score["valid_prompt_tokens_mean"]) == (None, None)


A, B = GraderLabel("a", "score_model", "m", is_part=True), GraderLabel("b", "label_model", "m", is_part=True)
BOTH = GraderLabel("a", "multi")
"""A multi grader that is called like one of its parts."""


def test_parts_that_share_a_model_have_tokens_and_times_of_their_own() -> None:
    less = {"m": TokenUsage(prompt_tokens=20)}
    parts = seen("a", is_part=True, usage=SPENT, latency_mean_s=2.0), seen("b", is_part=True, usage=less)
    data = told(judged(*parts, seen("a", latency_mean_s=3.0)), A, B, BOTH)
    assert [(one["name"], one["train_prompt_tokens_count"]) for one in data["usage"]["graders"]] == [
        ("a", 300),
        ("b", 20),
    ]
    assert [(one["name"], one["train_execution_latency_mean"]) for one in data["timing"]["graders"]] == [
        ("a", 2.0),
        ("b", 0.1),
    ]
    assert [one["name"] for one in data["scores"]["graders"]] == ["a", "b"]


def test_errors_of_a_judge_are_told_apart() -> None:
    failures = {"server_error": 2, "invalid_score": 1, "invalid_variable": 3, "internal_error": 1}
    step = judged(seen("score", errors_by_code=failures, model_errors={"sample_parse_error": 1}))
    (errors,) = told(step, GraderLabel("score", "score_model", "m"))["errors"]["graders"]
    assert errors["train_model_grader_server_error_count"] == 2
    assert errors["train_other_error_count"] == 2
    assert errors["train_invalid_variable_error_count"] == 3
    assert (errors["train_sample_parse_error_count"], errors["train_sample_parse_error_mean"]) == (1, 0.125)


def test_errors_of_python_code_have_a_name_of_their_own() -> None:
    step = judged(seen("code", errors_by_code={"grader_error": 2, "internal_error": 1}))
    (errors,) = told(step, GraderLabel("code", "python"))["errors"]["graders"]
    assert (errors["train_python_grader_runtime_error_count"], errors["train_other_error_count"]) == (2, 0)
    assert errors["train_python_grader_server_error_count"] == 1


def test_errors_belong_to_the_part_that_had_them_and_a_formulas_to_the_whole() -> None:
    parts = seen("a", is_part=True, errors_by_code={"server_error": 2}), seen("b", is_part=True)
    data = told(judged(*parts, seen("a", errors_by_code={"grader_error": 3, "deadline_exceeded": 1})), A, B, BOTH)
    first, second, whole = data["errors"]["graders"]
    assert (first["train_model_grader_server_error_count"], first["train_other_error_count"]) == (2, 0)
    assert (second["train_model_grader_server_error_count"], second["train_other_error_count"]) == (0, 0)
    assert (whole["name"], whole["type"]) == ("a", "multi")
    assert (whole["train_formula_parse_error_count"], whole["train_other_error_count"]) == (3, 1)


def test_a_grader_that_no_rollout_reached_had_no_errors_and_no_time() -> None:
    data = told(judged(), GraderLabel("code", "python"))
    (errors,), (times,) = data["errors"]["graders"], data["timing"]["graders"]
    assert errors["train_python_grader_runtime_error_count"] == 0
    assert times["train_execution_latency_mean"] is None


def test_answers_that_lack_what_a_template_names_are_parse_errors() -> None:
    valid = stats(0.5).model_copy(update={"model_errors": {"sample_parse_error": 1}})
    step = step_done(2, 4).model_copy(update={"valid": valid})
    event = metrics_event(step, JUDGE)
    assert event.message.endswith("full validation mean parse error=0.33")
