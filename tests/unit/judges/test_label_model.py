"""`label_model`: a label from a judge is 1 or 0; a label that is none is a failure."""

import json

import pytest

from rft.core.failure import Failure, FailureCode
from rft.core.grade import Grade
from rft.core.graders import JudgeMessage, LabelModelGrader
from rft.grader_gateway.builtin.label_model import LabelModelJudge, read_label
from rft.grader_gateway.judge_answer import Unreadable
from rft.testing.judge import ScriptedJudge
from tests.unit.judges.conftest import Court, answered, sent

SPEC = LabelModelGrader(
    name="tone",
    model="judge-1",
    input=(JudgeMessage(role="user", content="{{ sample.output_text }}"),),
    labels=("polite", "rude", "mixed"),
    passing_labels=("polite", "mixed"),
)


async def grade(court: Court, judge: ScriptedJudge, spec: LabelModelGrader = SPEC) -> Grade | Failure:
    async with court(judge) as room:
        return await LabelModelJudge(room.client, spec, room.server).grade(answered("Hi"), item={}, trace_id="trace_1")


@pytest.mark.parametrize(("label", "reward"), [("polite", 1.0), ("mixed", 1.0), ("rude", 0.0), (" Rude ", 0.0)])
async def test_passing_labels_are_one_and_the_others_zero(court: Court, label: str, reward: float) -> None:
    judge = ScriptedJudge(json.dumps({"steps": [], "result": label}))

    graded = await grade(court, judge)

    assert isinstance(graded, Grade)
    assert (graded.reward, graded.scores) == (reward, {"tone": reward})
    system = sent(judge)[0]["messages"][0]
    assert system["role"] == "system"
    schema = sent(judge)[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["result"]["enum"] == ["polite", "rude", "mixed"]


@pytest.mark.parametrize(("wanted", "reward"), [(None, 0.0), (-1.0, -1.0)])
async def test_an_answer_that_lacks_what_a_template_names_gets_the_invalid_grade_without_asking(
    court: Court, wanted: float | None, reward: float
) -> None:
    message = JudgeMessage(role="user", content="{{ sample.output_tools[0].function.name }}")
    judge = ScriptedJudge('{"result": "polite"}')

    graded = await grade(court, judge, SPEC.model_copy(update={"input": (message,), "invalid_grade": wanted}))

    assert isinstance(graded, Grade)
    assert (graded.reward, graded.is_invalid, judge.calls) == (reward, True, [])


async def test_a_label_that_is_none_is_asked_for_again_and_then_a_failure(court: Court) -> None:
    judge = ScriptedJudge('{"result": "friendly"}')

    failed = await grade(court, judge)

    assert isinstance(failed, Failure)
    assert (failed.code, failed.attempts) == (FailureCode.INVALID_SCORE, 3)
    assert "'friendly', which is not among the labels" in failed.message


@pytest.mark.parametrize(
    ("answer", "reward"),
    [
        ('<think>Perhaps {"result": "polite"}? No.</think>\nrude', 0.0),
        ('<think>Perhaps {"result": "rude"}? No.</think>{"result": "polite"}', 1.0),
        ('<think>Perhaps {"result": "polite"}? Well.</think>I cannot say.', None),
        ('<think>Perhaps {"result": "polite"}?', None),
        ('Perhaps {"result": "polite"}? No.</think>\nrude', 0.0),
        ('Perhaps {"result": "polite"}? No.\n</think>\n\nI cannot say.', None),
        ('```json\n{"steps": ["It says </think>."], "result": "polite"}\n```', 1.0),
        ('{"steps": [{"description": "It says <think> and </think>."}], "result": "polite"}', 1.0),
    ],
)
async def test_what_a_thought_weighs_is_no_verdict(court: Court, answer: str, reward: float | None) -> None:
    graded = await grade(court, ScriptedJudge(answer))

    assert (graded.reward if isinstance(graded, Grade) else None) == reward
    if isinstance(graded, Grade):
        assert graded.reply == answer, "people read it whole"


async def test_half_of_a_surrogate_pair_in_an_answer_is_kept_as_one_that_can_be_stored(court: Court) -> None:
    graded = await grade(court, ScriptedJudge('{"steps": ["\ud83d"], "result": "polite"}'))

    assert isinstance(graded, Grade)
    assert (graded.reward, graded.reply) == (1.0, '{"steps": ["\ufffd"], "result": "polite"}')
    assert Grade.model_validate_json(graded.model_dump_json()) == graded


def test_a_label_that_the_judge_quotes_within_a_verdict_that_is_no_json_is_none() -> None:
    quoting = '{"steps": ["The answer says {"result": "polite"} itself"], "result": "rude"}'

    assert isinstance(read_label(quoting, SPEC.labels), Unreadable)


@pytest.mark.parametrize(
    "text",
    [
        'It says {"result": "polite"}, but the result is: RUDE. Result: rude',
        "{'result': 'rude'} {\"result\": \"polite\"}",
    ],
)
def test_a_label_beside_another_one_in_another_spelling_is_none(text: str) -> None:
    assert isinstance(read_label(text, SPEC.labels), Unreadable)
    assert read_label('{"result": "polite"} Result: Polite.', SPEC.labels) == "polite"


@pytest.mark.parametrize("label", ["partially correct", "very good", "A (best)", "yes, fully", "U.S."])
@pytest.mark.parametrize("again", ["\n\nResult: {}", "\n**Result:** {}.", " result: '{}'", "\nResult: {}, as I said"])
def test_a_label_that_the_judge_repeats_is_its_verdict(label: str, again: str) -> None:
    text = json.dumps({"steps": [], "result": label}) + again.format(label)
    assert read_label(text, (label, "correct", "very")) == label
    assert isinstance(read_label(text + "\nResult: correct", (label, "correct")), Unreadable)


def test_a_label_that_is_a_number_may_be_repeated_as_a_share_of_the_highest() -> None:
    for label in "12345":
        assert read_label(f'{{"result": "{label}"}}\nResult: {label}/5', list("12345")) == label
    for again in ("1/10", "5/5", "100%"):
        assert isinstance(read_label(f'{{"result": "1"}}\nResult: {again}', list("12345")), Unreadable)


@pytest.mark.parametrize(
    ("label", "other"),
    [
        ("A", "A-"),
        ("A", "A+"),
        ("A", "A\u2212"),
        ("pass", "pass-with-notes"),
        ("very", "very good"),
        ("A", "A (no proof)"),
    ],
)
def test_a_longer_label_that_begins_like_the_verdict_is_another_one(label: str, other: str) -> None:
    text, labels = json.dumps({"steps": [], "result": label}), (label, other)
    for again in (
        f"\nResult: {other}",
        f"\nResult: {other}-ish",
        f"\n**Result:** {other}, as I said",
        f" result: '{other}'.",
    ):
        assert isinstance(read_label(text + again, labels), Unreadable)
    for again in (f"\nResult: {label}", f"\n**Result:** {label} - as I said", f" result: '{label}'."):
        assert read_label(text + again, labels) == label


@pytest.mark.parametrize("again", ["A-", "A/B", "A or B", "A? No, B"])
def test_a_label_that_something_goes_on_behind_is_another_one(again: str) -> None:
    assert isinstance(read_label(f'{{"result": "A"}}\nResult: {again}', ("A", "B")), Unreadable)


@pytest.mark.parametrize("text", ['{"result": 1}', '{"label": "polite"}', "neither", "[]"])
def test_what_names_no_label_is_unreadable(text: str) -> None:
    assert isinstance(read_label(text, SPEC.labels), Unreadable)


def test_case_decides_where_labels_differ_in_nothing_else() -> None:
    labels = ("Yes", "yes")

    assert read_label('{"result": "yes"}', labels) == "yes"
    assert isinstance(read_label('{"result": "YES"}', labels), Unreadable)
