"""Every kind of grader is opened in one place."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import get_args

import pytest
from pydantic import JsonValue, TypeAdapter

from rft.core.base import JsonObject
from rft.core.failure import Failure, FailureCode
from rft.core.grade import Grade
from rft.core.graders import GraderSpec, JudgeServer, LeafGrader, RulerGrader
from rft.core.spec import RetryBudget, RunSecrets
from rft.egress.client import HttpClient
from rft.egress.endpoint_client import EndpointClient
from rft.egress.limits import Limits
from rft.grader_gateway.build import open_grader, open_group_grader
from rft.grader_gateway.grader import Grader, close_grader
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.finished import finished

TEXTS: JsonObject = {"input": "{{ sample.output_text }}", "reference": "{{ item.answer }}"}
MESSAGES: list[JsonValue] = [{"role": "user", "content": "{{ item.answer }}"}]
LEAVES: dict[str, JsonObject] = {
    "endpoint": {"type": "endpoint", "name": "web", "url": "http://127.0.0.1:1/grade"},
    "string_check": {"type": "string_check", "name": "exact", **TEXTS, "operation": "eq"},
    "text_similarity": {"type": "text_similarity", "name": "alike", **TEXTS, "evaluation_metric": "fuzzy_match"},
    "score_model": {"type": "score_model", "name": "judge", "model": "m", "input": MESSAGES},
    "label_model": {
        "type": "label_model", "name": "label", "model": "m", "input": MESSAGES,
        "labels": ["a"], "passing_labels": ["a"],
    },
    "python": {"type": "python", "name": "code", "source": "def grade(sample, item):\n    return 0.25"},
}  # fmt: skip
JUDGE = JudgeServer(base_url="http://127.0.0.1:1/v1")


def spec(body: JsonObject) -> GraderSpec:
    return TypeAdapter[GraderSpec](GraderSpec).validate_python(body)


@asynccontextmanager
async def client() -> AsyncGenerator[EndpointClient]:
    async with EndpointClient(HttpClient(), limits=Limits.fixed(8), retry=RetryBudget(max_retries=0)) as opened:
        yield opened


async def graded(grader: Grader) -> Grade | Failure:
    try:
        return await grader.grade(finished("4"), item={"answer": "4"}, trace_id="trace_1")
    finally:
        await close_grader(grader)


def test_every_kind_is_here() -> None:
    kinds = {kind.model_fields["type"].default for kind in get_args(get_args(LeafGrader)[0])}
    assert set(LEAVES) == kinds


@pytest.mark.parametrize("kind", list(LEAVES))
async def test_a_grader_of_every_kind_answers_with_a_grade_or_a_failure(kind: str) -> None:
    async with client() as opened:
        verdict = await graded(
            open_grader(spec(LEAVES[kind]), client=opened, secrets=RunSecrets(), judge=JUDGE, job_id="j")
        )
    if isinstance(verdict, Failure):
        assert verdict.code is FailureCode.CONNECT_ERROR
        assert kind in {"endpoint", "score_model", "label_model"}
    else:
        assert verdict.reward == {"string_check": 1.0, "text_similarity": 1.0, "python": 0.25}[kind]
        assert list(verdict.scores) == [LEAVES[kind]["name"]]


async def test_a_multi_grader_sends_each_part_its_own_header_values() -> None:
    endpoints = [ScriptedEndpoint(grader=ScriptedGrader(lambda sample, item: 0.5)) for _ in range(2)]
    async with LoopbackEndpoint(endpoints[0]) as first, LoopbackEndpoint(endpoints[1]) as second, client() as opened:
        parts: JsonObject = {
            "a": {"type": "endpoint", "name": "same", "url": first.grader_url, "header_names": ["X-Key"]},
            "b": {"type": "endpoint", "name": "same", "url": second.grader_url, "header_names": ["X-Key"]},
            "c": LEAVES["python"],
        }
        multi = spec({"type": "multi", "name": "all", "graders": parts, "calculate_output": "a + b + c"})
        secrets = RunSecrets(part_headers={"a": {"X-Key": "for-a"}, "b": {"X-Key": "for-b"}})
        verdict = await graded(open_grader(multi, client=opened, secrets=secrets, judge=None, job_id="j"))
    assert isinstance(verdict, Grade), verdict
    assert (verdict.reward, verdict.scores) == (1.25, {"a": 0.5, "b": 0.5, "c": 0.25})
    assert [endpoint.calls[0].headers["x-key"] for endpoint in endpoints] == ["for-a", "for-b"]


@pytest.mark.parametrize("kind", ["score_model", "label_model"])
async def test_a_judge_that_nobody_configured_is_told_by_kind(kind: str) -> None:
    async with client() as opened:
        with pytest.raises(ValueError, match=f"{kind} grader needs a judge"):
            open_grader(spec(LEAVES[kind]), client=opened, secrets=RunSecrets(), judge=None, job_id="j")


async def test_a_ruler_ranks_groups_and_is_opened_as_such() -> None:
    ruler = RulerGrader(name="ruler", model="m")
    async with client() as opened:
        with pytest.raises(ValueError, match="ranks groups"):
            open_grader(ruler, client=opened, secrets=RunSecrets(), judge=JUDGE, job_id="j")
        with pytest.raises(ValueError, match="needs a judge"):
            open_group_grader(ruler, client=opened, secrets=RunSecrets(), judge=None, job_id="j")
        group = open_group_grader(ruler, client=opened, secrets=RunSecrets(), judge=JUDGE, job_id="j")
        assert isinstance(await group.rank([finished(), finished()], item={}, trace_ids=["a", "b"]), Failure)
