"""What an order comes to, from its rows alone."""

from typing import Any

from rft.platform.dry_runs.estimate import to_estimate
from rft.platform.orders.schemas import JobCreate

EXACT = {"type": "string_check", "input": "{{sample.output_text}}", "reference": "7", "operation": "eq"}


def order(grader: dict[str, Any], **reinforcement: Any) -> JobCreate:
    method = {"type": "reinforcement", "reinforcement": {"grader": grader, **reinforcement}}
    return JobCreate.model_validate({"model": "tiny", "training_file": "file-1", "method": method})


def test_a_test_file_is_measured_twice_and_baselines_once_each() -> None:
    wanted = order(
        EXACT,
        baselines=["acme/large", "acme/small"],
        hyperparameters={"batch_size": 5, "n_epochs": 3, "eval_samples": 2, "eval_interval": 4},
    )
    told = to_estimate(wanted, {"training_file": 10, "validation_file": 3, "test_file": 7}, {})
    assert told.evaluations == 3, "steps 0, 4 and 6"
    assert told.rollouts.model_dump() == {
        "training": 6 * 5 * 8,
        "validation": 3 * 3 * 2,
        "final": 2 * 7 * 2,
        "baselines": 2 * 3 * 2,
        "total": 240 + 18 + 28 + 12,
    }


def test_an_evaluation_of_more_rollouts_than_a_step_is_told() -> None:
    wanted = order(EXACT, hyperparameters={"batch_size": 2, "eval_samples": 2})  # sixteen rollouts a step
    told = [
        [warning.message for warning in to_estimate(wanted, rows, {}).warnings if warning.code == "evaluation_burst"]
        for rows in (
            {"training_file": 10, "validation_file": 8},
            {"training_file": 10, "validation_file": 9},
            {"training_file": 10, "test_file": 700},
        )
    ]
    assert told == [
        [],
        ["An evaluation starts 18 rollouts at once, more than training."],
        ["An evaluation starts 1,400 rollouts at once, more than training."],
    ]


def test_a_ranking_asks_its_judge_once_for_a_group_and_others_for_each_rollout() -> None:
    hyperparameters = {"batch_size": 4, "n_epochs": 1, "compute_multiplier": 1.0}
    rows = {"training_file": 8}
    ranking = to_estimate(order({"type": "ruler", "model": "judge"}, hyperparameters=hyperparameters), rows, {})
    assert [(one.stage, one.name, one.burst, one.calls) for one in ranking.endpoints] == [("judge", "judge", 4, 8)]
    parts = {
        "label": {
            "type": "label_model",
            "model": "judge",
            "input": [{"role": "user", "content": "x"}],
            "labels": ["a"],
            "passing_labels": ["a"],
        },
        "own": {"type": "endpoint", "url": "http://127.0.0.1:9301/grade"},
        "exact": EXACT,
    }
    multi = order({"type": "multi", "graders": parts, "calculate_output": "label"}, hyperparameters=hyperparameters)
    told = to_estimate(multi, rows, {})
    assert [(one.stage, one.name, one.calls) for one in told.endpoints] == [
        ("judge", "judge", 64),
        ("grader", "own", 64),
    ]


def test_a_ranking_of_validation_and_final_rollouts_is_one_call_for_each_row() -> None:
    hyperparameters = {"batch_size": 4, "n_epochs": 1, "compute_multiplier": 1.0, "eval_samples": 2, "eval_interval": 2}
    rows = {"training_file": 8, "validation_file": 10, "test_file": 5}
    told = to_estimate(order({"type": "ruler", "model": "judge"}, hyperparameters=hyperparameters), rows, {})
    assert told.rollouts.model_dump() == {"training": 64, "validation": 40, "final": 20, "baselines": 0, "total": 124}
    [judge] = told.endpoints
    assert judge.calls == 8 + 20 + 10
    assert judge.calls_per_rollout == 38 / 124


def test_assumed_calls_are_shared_by_the_tools_and_within_what_a_rollout_may_make() -> None:
    tools = [{"name": name, "server_url": "http://127.0.0.1:9301/"} for name in ("search", "cat")]
    rows = {"training_file": 8}
    assert [one.calls_per_rollout for one in to_estimate(order(EXACT, tools=tools), rows, {}).endpoints] == [1.5, 1.5]
    scant = to_estimate(order(EXACT, tools=tools, max_episode_steps=1), rows, {})
    assert [one.calls_per_rollout for one in scant.endpoints] == [0.5, 0.5]


def test_a_ranking_of_the_steps_under_way_at_once_is_as_many_calls_at_once() -> None:
    ruler = order({"type": "ruler", "model": "judge"}, hyperparameters={"batch_size": 4, "max_staleness": 2})
    told = to_estimate(ruler, {"training_file": 8}, {})
    assert (told.hyperparameters.burst, told.hyperparameters.group_size) == (96, 8)
    assert [one.burst for one in told.endpoints] == [12]
