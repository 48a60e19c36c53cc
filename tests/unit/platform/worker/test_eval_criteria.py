"""Criteria of one eval that ask the same server: each gets its own answer, whatever that server keeps of its calls."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rft.core.egress_settings import EgressSettings
from rft.core.grade import Grade
from rft.core.spec import RunSecrets
from rft.egress.endpoint_client import EndpointClient
from rft.egress.signing import Signer
from rft.platform.evals.repository import EvalRow
from rft.platform.settings import Settings
from rft.platform.store.secret_box import SecretBox
from rft.platform.worker.eval_criteria import OpenCriteria
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.faults import Fault, HttpAnswer, ReceivedCall
from rft.testing.judge import COMPLETIONS_PATH, ScriptedJudge
from rft.testing.loopback import LoopbackEndpoint
from tests.shared.finished import finished

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLjSw"
ENDPOINTS: list[Any] = [{"type": "endpoint", "name": name, "url": f"/grade?score={name}"} for name in "01"]
MULTIS: list[Any] = [
    {"type": "multi", "name": each["name"], "graders": {"part": each}, "calculate_output": "part"} for each in ENDPOINTS
]
JUDGES: list[Any] = [
    {"type": "score_model", "name": "judge", "model": name, "input": [{"role": "user", "content": "Judge."}]}
    for name in "01"
]


class Replaying(ScriptedEndpoint):
    """A grader, and a judge, that answer a call under a known key with what they said to the first."""

    def __init__(self) -> None:
        super().__init__()
        self.said: dict[str, HttpAnswer | Fault] = {}
        self.judge = ScriptedJudge(lambda body: json.dumps({"steps": [], "result": float(str(body["model"]))}))

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        key = call.headers["idempotency-key"]
        if key not in self.said:
            is_judged = call.path == COMPLETIONS_PATH
            score = call.query.removeprefix("score=")
            graded = HttpAnswer(200, f'{{"score": {score}}}'.encode())
            self.said[key] = await self.judge.answer(call) if is_judged else graded
        return self.said[key]


async def graded(documents: list[Any], server: Replaying, home: Path) -> list[float | None]:
    """What the criteria say of one answer."""
    box, now = SecretBox.at(home), datetime.now(UTC)
    async with (
        LoopbackEndpoint(server) as served,
        EndpointClient.open(EgressSettings(), signer=Signer([SECRET])) as client,
    ):
        told = json.dumps([{**one, "id": f"id-{place}"} for place, one in enumerate(documents)])
        eval_ = EvalRow(
            id="eval_1",
            created_at=now,
            updated_at=now,
            name="mine",
            metadata=None,
            data_source_config={},
            testing_criteria=[],
            sealed=box.seal_text(told.replace("/grade", served.grader_url)),
        )
        settings = Settings.model_validate({"home": home, "judge_base_url": f"{served.base_url}/v1"})
        criteria = OpenCriteria.open(eval_, box, settings, client=client, secrets=RunSecrets(), run_id="evalrun_1")
        outcomes = await criteria.grade(finished("4"), item={}, trace_id="trace_1", has_sample=True)
        await criteria.aclose()
    return [outcome.reward if isinstance(outcome, Grade) else None for outcome in outcomes]


@pytest.mark.parametrize("documents", [ENDPOINTS, MULTIS, JUDGES], ids=["endpoint", "multi", "judge"])
async def test_each_criterion_calls_under_a_key_of_its_own(documents: list[Any], tmp_path: Path) -> None:
    server = Replaying()
    assert await graded(documents, server, tmp_path) == [0.0, 1.0]
    assert len({call.headers["webhook-id"] for call in server.calls}) == 2


async def test_the_only_criterion_calls_under_the_key_of_a_grade(tmp_path: Path) -> None:
    server = Replaying()
    assert await graded(ENDPOINTS[1:], server, tmp_path) == [1.0]
    assert list(server.said) == ["trace_1/grade"]
