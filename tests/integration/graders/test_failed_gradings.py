"""Gradings that came to nothing, from every kind of grader to the columns of the result file: none is lost."""

from typing import Any, cast

import pytest

from rft.core.failure import Failure, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.graders import (
    EndpointGrader,
    GraderSpec,
    JudgeMessage,
    JudgeServer,
    LabelModelGrader,
    MultiGrader,
    PythonGrader,
    RulerGrader,
    ScoreModelGrader,
    StringCheckGrader,
    TextSimilarityGrader,
)
from rft.core.group import Group
from rft.core.messages import Message, Role
from rft.core.rollout import Rollout, RolloutKey, Split, StopReason
from rft.core.spec import RetryBudget, RunSecrets
from rft.core.turns import Trace
from rft.egress.endpoint_client import EndpointClient
from rft.grader_gateway.build import open_grader, open_group_grader
from rft.grader_gateway.grader import close_grader
from rft.platform.lifecycle.results import result_row
from rft.platform.worker.grader_metrics import grader_labels
from rft.platform.worker.metrics_event import metrics_event
from rft.rollouts.stats import rollout_stats
from rft.testing.judge import ScriptedJudge
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.train_events import step_done

ROLLOUTS = 3
ASKED = (JudgeMessage(role="user", content="{{ sample.output_text }}"),)
LACKING = "{{ item.no_such_key }}"
CHECK = StringCheckGrader(name="check", input=LACKING, reference="", operation="eq")
SIMILAR = TextSimilarityGrader(name="similar", input=LACKING, reference="", evaluation_metric="bleu")
CODE = PythonGrader(name="code", source="def grade(sample, item):\n    return item['no_such_key']\n")
SCORE = ScoreModelGrader(name="score", model="judge-1", input=ASKED)
LABEL = LabelModelGrader(name="label", model="judge-1", input=ASKED, labels=("a", "b"), passing_labels=("a",))
RULER = RulerGrader(name="ruler", model="judge-1")
REMOTE = EndpointGrader(name="remote", url="http://127.0.0.1:9/grade")
FINE = StringCheckGrader(name="fine", input="{{ sample.output_text }}", reference="42", operation="eq")
PARTS = MultiGrader(name="fine", graders={"fine": FINE, "code": CODE, "score": SCORE}, calculate_output="fine + code")
FORMULA = MultiGrader(name="fine", graders={"fine": FINE}, calculate_output="log(fine - 1)")
TRACE = FinishedTrace(
    messages=(Message(role=Role.USER, content="6 x 7?"), Message(role=Role.ASSISTANT, content="42")),
    prompt_messages=1,
    finish_reason="stop",
    model="policy",
)


async def outcomes(spec: GraderSpec) -> list[Grade | Failure]:
    """What this grader makes of three rollouts where its judge gives no verdict."""
    judge = ScriptedJudge("I would rather not say.")
    retry = RetryBudget(max_retries=1, first_wait_s=0.01)
    async with LoopbackEndpoint(judge) as courtroom, EndpointClient.open(retry=retry) as client:
        server = JudgeServer(base_url=f"{courtroom.base_url}/v1")
        if isinstance(spec, RulerGrader):
            ruler = open_group_grader(spec, client=client, secrets=RunSecrets(), judge=server, job_id="j")
            traces, ids = [TRACE] * ROLLOUTS, [f"trace_{number}" for number in range(ROLLOUTS)]
            ranked = await ruler.rank(traces, item={}, trace_ids=ids)
            assert isinstance(ranked, Failure)
            return list(ranked.shared_by(ROLLOUTS))
        grader = open_grader(spec, client=client, secrets=RunSecrets(), judge=server, job_id="j")
        try:
            return [await grader.grade(TRACE, item={}, trace_id=f"trace_{number}") for number in range(ROLLOUTS)]
        finally:
            await close_grader(grader)


def rollout(outcome: Grade | Failure, index: int) -> Rollout:
    """One rollout that ended like this."""
    return Rollout(
        key=RolloutKey(job_id="j", job_seed=1, split=Split.TRAIN, step=1, epoch=0, row_index=0, index=index),
        trace_id=f"trace_{index}",
        policy_version=0,
        trace=Trace(prompt_ids=(1,)),
        stop_reason=StopReason.COMPLETED,
        outcome=outcome,
        messages=(),
        duration_s=1.0,
        sampling_s=0.5,
        tools_s=0.0,
        grading_s=0.5,
    )


@pytest.mark.parametrize(
    ("spec", "column", "judge_calls"),
    [
        (CHECK, "string_check/check/errors/train_invalid_variable_error", 0),
        (SIMILAR, "text_similarity/similar/errors/train_invalid_variable_error", 0),
        (CODE, "python/code/errors/train_python_grader_runtime_error", 0),
        (SCORE, "score_model/score/errors/train_other_error", 2 * ROLLOUTS),
        (LABEL, "label_model/label/errors/train_other_error", 2 * ROLLOUTS),
        (RULER, "ruler/ruler/errors/train_other_error", 2),
        (REMOTE, "endpoint/remote/errors/train_other_error", 0),
        (PARTS, "python/code/errors/train_python_grader_runtime_error", 2 * ROLLOUTS),
        (FORMULA, "multi/fine/errors/train_formula_parse_error", 0),
    ],
    ids=["check", "similarity", "python", "score_model", "label_model", "ruler", "endpoint", "multi", "formula"],
)
async def test_every_grading_without_a_score_is_counted_and_so_are_its_tokens(
    spec: GraderSpec, column: str, judge_calls: int
) -> None:
    failed = await outcomes(spec)
    is_graded = spec in (CODE, PARTS, FORMULA)
    for outcome in failed:
        if isinstance(outcome, Grade):
            assert (is_graded, outcome.is_invalid, outcome.reward) == (True, True, 0.0)
        else:
            assert (is_graded, outcome.stage) == (False, Stage.GRADER)
    stats = rollout_stats([Group(0, tuple(rollout(outcome, index) for index, outcome in enumerate(failed)))])
    step = step_done(1, 1, evaluated=False).model_copy(update={"train": stats})

    data = cast("dict[str, Any]", metrics_event(step, grader_labels(spec)).data)
    row = result_row(data)

    assert row["grader_error_count"] == ROLLOUTS
    assert (row[f"errors/graders/{column}_count"], row[f"errors/graders/{column}_mean"]) == (ROLLOUTS, 1.0)
    tokens = data["model_graders_token_usage"].get("judge-1", {"train_prompt_tokens": 0, "train_completion_tokens": 0})
    assert (tokens["train_prompt_tokens"], tokens["train_completion_tokens"]) == (100 * judge_calls, 20 * judge_calls)
    told = [grader["train_prompt_tokens_count"] for grader in data["usage"]["graders"]]
    assert sum(told) == 100 * judge_calls


async def test_what_one_part_did_is_not_blamed_on_another() -> None:
    stats = rollout_stats([Group(0, tuple(rollout(each, index) for index, each in enumerate(await outcomes(PARTS))))])

    step = step_done(1, 1, evaluated=False).model_copy(update={"train": stats})
    data = cast("dict[str, Any]", metrics_event(step, grader_labels(PARTS)).data)

    fine, code, score, whole = data["errors"]["graders"]
    errors = {name: count for one in (fine, whole) for name, count in one.items() if name.endswith("_count")}
    assert not any(errors.values()), "the part that works and the formula, which was never reached"
    assert (code["train_python_grader_runtime_error_count"], score["train_other_error_count"]) == (ROLLOUTS, ROLLOUTS)
    times = {one["name"]: one["train_execution_latency_mean"] for one in data["timing"]["graders"]}
    assert times["fine"] is not None
    assert times["code"] is not None
    assert times["score"] is None, "it never gave a score"
