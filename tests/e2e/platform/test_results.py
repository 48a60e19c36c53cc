"""What is left of a finished run, as a customer's script reads it: the result file and the usage."""

import csv
import io
import time
from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from tests.e2e.platform.customer import (
    CustomerServer,
    events_of,
    launch,
    order,
    rollouts_of,
    row,
    rows,
    steps_of,
    wait_for,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_the_result_file_tells_what_the_steps_told(client: OpenAI, server: CustomerServer) -> None:
    job = wait_for(client, launch(client, server, train=rows(4), valid=rows(2, first=2)).id)
    assert job.status == "succeeded", job.error
    (file_id,) = job.result_files
    file = client.files.retrieve(file_id)
    content = client.files.content(file_id)
    assert (file.purpose, file.filename, file.bytes) == ("fine-tune-results", "step_metrics.csv", len(content.content))
    table = list(csv.DictReader(io.StringIO(content.text)))
    steps = steps_of(client, job.id)
    assert [int(line["step"]) for line in table] == [step["step"] for step in steps]
    for line, step in zip(table[1:], steps[1:], strict=True):
        assert float(line["train_mean_reward"]) == step["train"]["reward_mean"]
        assert float(line["total_duration"]) == step["timing"]["full_step_s"]
        assert line["scores/graders/endpoint/letters/train_reward_mean"] != ""
        assert line["tool_calls_to_search"] != "", "a tool of the job that is not called is called zero times"
    assert table[0]["train_mean_reward"] == ""
    usage: Any = job.usage_metrics
    assert usage["steps"] == len(steps) - 1
    measured = [one for one in rollouts_of(client, job.id) if one["split"] == "test"]
    assert len(measured) == (2 if job.best_step else 0)
    assert usage["rollouts"] == len(measured) + sum(
        split["rollouts"] for step in steps for split in (step["train"], step["valid"]) if split
    )
    warnings = [event.data for event in events_of(client, job.id) if event.level == "warn" and event.data]
    assert {"code": "shared_rows", "param": "validation_file", "count": 2} in warnings


def test_one_row_a_batch_beyond_it_and_a_grader_that_bears_less_than_a_step_asks_of_it(
    client: OpenAI, server: CustomerServer
) -> None:
    """There is no validation file either. It succeeds, and the grader is named as what limits the job."""
    most = {"batch_size": 256, "n_epochs": 2, "compute_multiplier": 1.0}
    wanted = order(client, server, train=row(0).encode(), hyperparameters=most)
    wanted["method"]["reinforcement"]["grader"]["max_concurrency"] = 1
    # No pause of a busy machine outweighs these.
    server.before_call = lambda path: time.sleep(1.5) if path == "/grade" else None
    job = wait_for(client, client.fine_tuning.jobs.create(**wanted).id)
    assert job.status == "succeeded", job.error
    assert (job.resolved_hyperparameters["batch_size"], job.resolved_hyperparameters["steps"]) == (1, 2)
    assert job.method.reinforcement.hyperparameters.batch_size == 256
    assert [step["step"] for step in steps_of(client, job.id)] == [0, 1, 2]
    assert job.fine_tuned_model in {model.id for model in client.models.list()}
    told: Any = client.get(f"/fine_tuning/jobs/{job.id}/diagnostics", cast_to=object)
    assert told["pace"]["bound"] == "endpoint", told
    bears = "Your grader `letters` bears 1 call at once (max_concurrency of the tool or grader): a step's 8 calls take"
    assert told["pace"]["message"].startswith(bears)
    assert "A second GPU would change nothing" in told["pace"]["message"]


def test_a_tool_that_no_row_describes_is_refused_at_creation(client: OpenAI, server: CustomerServer) -> None:
    tools = [{"name": name, "server_url": f"{server.url}/tool"} for name in ("search", "browse")]
    with pytest.raises(BadRequestError, match="'browse'") as raised:
        client.fine_tuning.jobs.create(**order(client, server, tools=tools, train=row(0).encode()))
    assert raised.value.param == "method.reinforcement.tools[1].name"
