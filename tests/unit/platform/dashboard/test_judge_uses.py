"""What asks which judge, read from graders as they are stored."""

from datetime import UTC, datetime

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.platform.dashboard.judge_uses import JudgeUser, NamedJudge, UserKind, by_model, judges_in


def test_a_judge_goes_by_its_graders_name_and_a_part_by_its_variable() -> None:
    tone: JsonObject = {"type": "score_model", "name": "tone", "model": "small", "input": []}
    assert list(judges_in(tone)) == [NamedJudge("small", "tone")]
    assert list(judges_in({"type": "ruler", "model": "large"})) == [NamedJudge("large", "grader")]
    several: JsonObject = {
        "type": "multi",
        "name": "all",
        "graders": {"a": tone, "b": {"type": "label_model", "model": "large"}, "c": {"type": "string_check"}},
        "calculate_output": "a + b + c",
    }
    assert list(judges_in(several)) == [NamedJudge("small", "a"), NamedJudge("large", "b")]
    assert list(judges_in([tone, several])) == [
        NamedJudge("small", "tone"), NamedJudge("small", "a"), NamedJudge("large", "b"),
    ]  # fmt: skip


def test_what_asks_nobody_and_what_cannot_be_read_is_passed_over() -> None:
    documents: list[JsonValue] = [
        {"type": "endpoint", "model": "x"}, {"type": "multi", "graders": 3}, "grader", None, [7],
    ]  # fmt: skip
    for document in documents:
        assert list(judges_in(document)) == []
    assert list(judges_in({"type": "score_model", "model": 5})) == []


def test_each_model_has_whatever_names_it_once_and_in_order() -> None:
    def user(kind: UserKind, id: str, *models: str) -> JudgeUser:
        judges = tuple(NamedJudge(model, f"g{at}") for at, model in enumerate(models))
        return JudgeUser(kind, id, None, None, datetime.now(UTC), has_begun=False, judges=judges)

    job, made = user("job", "ftjob-1", "small", "small", "large"), user("eval", "eval_1", "small")
    assert by_model([job, made]) == {"small": [job, made], "large": [job]}
