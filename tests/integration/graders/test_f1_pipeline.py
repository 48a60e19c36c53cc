"""A published pipeline through real rollouts: F1 of `output_json` by a python grader, from a policy that often errs."""

import itertools
import json
from collections.abc import Sequence

import pytest

from rft.chat.hermes import HermesChatFormat
from rft.core.dataset import DatasetRow, parse_row
from rft.core.errors import RunFailed
from rft.core.grade import Grade
from rft.core.graders import PythonGrader
from rft.core.response_format import ResponseFormat
from rft.core.rollout import Rollout
from rft.core.spec import Budgets, RunSecrets
from rft.egress.endpoint_client import EndpointClient
from rft.grader_gateway.build import open_grader
from rft.grader_gateway.grader import close_grader
from rft.rollouts.executor import StepRollouts, run_step
from rft.rollouts.group import StepRow
from rft.rollouts.setup import RolloutSetup
from rft.rollouts.stats import rollout_stats
from rft.testing.samplers import ScriptedSampler
from rft.testing.samplers_gateways import FunctionTools
from rft.testing.samplers_tokenizer import ByteTokenizer
from rft.trainer.run_health import RunHealth, check_code, check_step
from rft.trainer.samples import training_rows

F1 = """
def grade(sample, item):
    said, right = set(sample["output_json"]["entities"]), set(item["entities"])
    both = len(said & right)
    return 2 * both / (len(said) + len(right))
"""
OF_TEXT = F1.replace('sample["output_json"]', 'json.loads(sample["output_text"])').replace("def", "import json\ndef", 1)
"""The same of a job without a `response_format`."""
WANTED = ResponseFormat(
    type="json_schema",
    json_schema={
        "type": "object",
        "properties": {"entities": {"type": "array", "items": {"type": "string"}}},
        "required": ["entities"],
        "additionalProperties": False,
    },
)
RIGHT, HALF = '{"entities": ["a", "b"]}', '{"entities": ["a", "c"]}'
FENCED, WORDS, OTHER = f"```json\n{RIGHT}\n```", "a and b", '{"names": ["a", "b"]}'


def row(index: int) -> DatasetRow:
    line = json.dumps({"messages": [{"role": "user", "content": f"Entities of {index}?"}], "entities": ["a", "b"]})
    parsed = parse_row(line, line_number=index + 1, index=index)
    assert isinstance(parsed, DatasetRow)
    return parsed


async def rolled_out(answers: Sequence[str], *, wanted: ResponseFormat | None, source: str = F1) -> StepRollouts:
    """Two rows with as many rollouts each as there are answers; every answer is given twice."""
    tokenizer, next_answer = ByteTokenizer(), itertools.cycle(answers)

    async def no_tool(call: object, trace_id: str) -> str:
        raise AssertionError("nobody calls tools here")

    async with EndpointClient.open() as client:
        spec = PythonGrader(name="f1", source=source)
        grader = open_grader(spec, client=client, secrets=RunSecrets(), judge=None, job_id="j", response_format=wanted)
        setup = RolloutSetup(
            sampler=ScriptedSampler(tokenizer, lambda request, prompt: next(next_answer)),
            chat_format=HermesChatFormat(tokenizer),
            tools=FunctionTools(no_tool),
            grader=grader,
            grader_name=spec.name,
            budgets=Budgets(),
            temperature=1.0,
            model_name="policy",
        )
        try:
            return await run_step(
                [StepRow(row(0), 0), StepRow(row(1), 0)],
                setup=setup,
                job_id="j",
                job_seed=1,
                step=1,
                group_size=len(answers),
                replacement_share=0.1,
                on_rollout=lambda rollout, was_replaced: None,
            )
        finally:
            await close_grader(grader)


def graded(done: StepRollouts) -> list[tuple[str, float, bool]]:
    """Answer, reward, and whether the grade is the contract's."""
    rollouts: list[Rollout] = [rollout for group in done.groups for rollout in group.rollouts]
    outcomes = [(rollout.messages[-1].content, rollout.outcome) for rollout in rollouts]
    return [(text, said.reward, said.is_invalid) for text, said in outcomes if isinstance(said, Grade)]


async def test_bad_json_is_zero_and_is_not_rewarded_by_exclusion() -> None:
    answers = [RIGHT, RIGHT, HALF, FENCED, WORDS, OTHER]
    done = await rolled_out(answers, wanted=WANTED)

    right = {RIGHT: (1.0, False), HALF: (0.5, False)}
    expected = [(text, *right.get(text, (0.0, True))) for text in answers * 2]
    assert sorted(graded(done)) == sorted(expected)
    stats = rollout_stats(done.groups, done.replaced)
    assert (stats.rollouts, stats.graded, stats.excluded, stats.replaced) == (12, 12, 0, 0)
    assert stats.reward_mean == pytest.approx(2.5 / 6)
    assert stats.grader_scores_mean == {"f1": pytest.approx(2.5 / 6)}
    assert stats.model_errors == {"sample_parse_error": 6}
    assert check_code(done.groups, step=1, is_trained_on=True) == (), "no code raised"
    assert check_step(RunHealth(), done.groups, step=1).is_trainable
    assert len(training_rows(done.groups)) == 12


async def test_without_a_format_the_code_raises_and_the_grade_is_zero_all_the_same() -> None:
    done = await rolled_out([RIGHT, HALF, RIGHT, WORDS], wanted=None, source=OF_TEXT)

    stats = rollout_stats(done.groups, done.replaced)
    assert (stats.graded, stats.excluded, stats.reward_mean) == (8, 0, 2.5 / 4)
    assert stats.model_errors == {"python_grader_runtime_error": 2}
    [notice] = check_code(done.groups, step=1, is_trained_on=True)
    assert (notice.level, notice.code) == ("warn", "grader_code_errors")
    assert "on 2 of 8 answers of step 1" in notice.message
    assert notice.data is not None
    assert "JSONDecodeError" in json.dumps(notice.data["samples"])


async def test_without_a_format_nothing_is_told_as_json() -> None:
    done = await rolled_out([RIGHT, "41"], wanted=None)

    assert {(reward, is_invalid) for _, reward, is_invalid in graded(done)} == {(0.0, True)}
    with pytest.raises(RunFailed, match="TypeError: 'NoneType' object is not subscriptable"):
        check_code(done.groups, step=1, is_trained_on=True)


async def test_a_grader_that_raises_on_most_answers_ends_the_run_with_its_traceback() -> None:
    done = await rolled_out([RIGHT, WORDS, FENCED, HALF, OTHER], wanted=None, source=OF_TEXT)

    assert {reward for _, reward, is_invalid in graded(done) if is_invalid} == {0.0}
    with pytest.raises(RunFailed, match="came to no score on 6 of 10 answers of step 1") as failed:
        check_code(done.groups, step=1, is_trained_on=True)
    assert (failed.value.code, failed.value.param) == ("grader_error", "method.reinforcement.grader")
    for message in ('File "<grader>", line 4, in grade', "JSONDecodeError", "KeyError: 'entities'"):
        assert message in str(failed.value)
    [notice] = check_code(done.groups, step=1, is_trained_on=False)
    assert "the evaluation of step 1" in notice.message
