"""A python grader that the compiler refuses once its job runs: rollouts end in `grader_error`, told everywhere."""

from pathlib import Path
from typing import Any

import psycopg
import pytest
from openai import OpenAI

from rft.core.failure import FailureCode
from tests.e2e.platform.customer import CustomerServer, events_of, order, rows, steps_of, wait_for
from tests.shared.running_platform import RunningPlatform

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
WORDS = "'return' outside function"
UNFIT = f"def grade(sample, item):\n    return 1.0\nreturn 0  # {WORDS}: it can be read, and not compiled"
SET_SOURCE = (
    "update jobs set method = jsonb_set(method, '{reinforcement,grader,source}', to_jsonb(%s::text))"
    " where id = %s and status = 'paused'"
)


def test_rollouts_end_in_grader_error_and_the_job_tells_why(
    client: OpenAI, server: CustomerServer, platform: RunningPlatform
) -> None:
    body = order(client, server, train=rows(4), hyperparameters={"n_epochs": 50})
    body["method"]["reinforcement"]["grader"] = {"type": "python", "name": "mine", "source": UNFIT.rpartition("\n")[0]}
    job = client.fine_tuning.jobs.create(**body)
    wait_for(client, job.id, ("queued", "running"))
    client.fine_tuning.jobs.pause(job.id)
    wait_for(client, job.id, ("paused",))
    before = steps_of(client, job.id)
    # An order with such a source is refused: only a release that looked less closely can have stored it.
    with psycopg.connect(database_url(platform)) as connection:
        assert connection.execute(SET_SOURCE, (UNFIT, job.id)).rowcount == 1
    client.fine_tuning.jobs.resume(job.id)

    over = wait_for(client, job.id)
    assert (over.status, over.error.code) == ("failed", "grader_failed")
    assert over.error.param == "method.reinforcement.grader"
    assert "grader 'mine'" in over.error.message
    assert WORDS in over.error.message
    assert over.fine_tuned_model is None
    broken = [step for step in steps_of(client, job.id) if step not in before and step["step"] > 0]
    assert broken
    for step in broken:
        assert (step["train"]["graded"], step["train"]["reward_mean"]) == (0, None)
        assert step["train"]["failures_by_code"] == {FailureCode.GRADER_ERROR: step["train"]["excluded"]}
    page: Any = client.get(f"/fine_tuning/jobs/{job.id}/rollouts?limit=100", cast_to=object)
    ended = [rollout for rollout in page["data"] if rollout["step"] in {step["step"] for step in broken}]
    assert ended
    for rollout in ended:
        assert (rollout["reward"], rollout["failure_stage"], rollout["failure_code"]) == (
            None, "grader", FailureCode.GRADER_ERROR,
        )  # fmt: skip
        trace: Any = client.get(f"/fine_tuning/jobs/{job.id}/rollouts/{rollout['id']}", cast_to=object)
        outcome = trace["record"]["outcome"]
        assert (outcome["code"], outcome["endpoint"]) == (FailureCode.GRADER_ERROR, "mine")
        assert WORDS in outcome["message"]
    told = [event.data for event in events_of(client, job.id) if event.type == "metrics"][-1]
    assert told["step"] == broken[-1]["step"]
    counted = told["errors"]["graders"][0]["train_python_grader_runtime_error_count"]
    assert counted == broken[-1]["train"]["excluded"] > 0


def database_url(platform: RunningPlatform) -> str:
    """As the platform's own processes have it."""
    variables = Path(f"/proc/{platform.child('api').pid}/environ").read_text().split("\0")
    return next(value for name, _, value in (one.partition("=") for one in variables) if name == "DATABASE_URL")
