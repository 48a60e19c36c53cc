"""Code written for the hosted service, as its users wrote it: here it runs with another address, key and model name."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from openai import AsyncOpenAI, BadRequestError, OpenAI
from openai.types.fine_tuning import ReinforcementHyperparameters, ReinforcementMethod
from openai.types.graders import MultiGrader, StringCheckGrader

from tests.shared.running_api import EXACT, ROW, Api, changed, upload

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some vendors ask for it in front of a dataset."""


@pytest.fixture
def sdk(api: Api) -> Iterator[OpenAI]:
    """The SDK without `async`, as notebooks use it."""
    with OpenAI(base_url=f"{api.url}/v1/", api_key=api.key, organization="org-1", project="proj_1") as client:
        yield client


def method(**fields: Any) -> dict[str, Any]:
    """`method` with a simple grader."""
    return {"type": "reinforcement", "reinforcement": {"grader": EXACT, **fields}}


async def test_hyperparameters_in_their_old_place_are_those_of_the_method(
    client: AsyncOpenAI, training_file: str, migrated_url: str
) -> None:
    old: Any = {"n_epochs": 2, "compute_multiplier": 1.5, "batch_size": "auto", "future_knob": 1}
    own = {"n_epochs": 3, "eval_samples": 2}
    jobs = client.fine_tuning.jobs
    job = await jobs.create(
        model="tiny",
        training_file=training_file,
        method=method(hyperparameters=own),  # pyright: ignore[reportArgumentType]
        hyperparameters=old,
    )
    shown: Any = json.loads(job.to_json(warnings=False))
    wanted = {"n_epochs": 3, "compute_multiplier": 1.5, "batch_size": "auto", "eval_samples": 2, "future_knob": 1}
    assert shown["method"]["reinforcement"]["hyperparameters"].items() >= wanted.items()
    assert "hyperparameters" not in shown
    events: list[Any] = (await jobs.list_events(job.id)).data
    (told,) = [event.data for event in events if event.data and event.data["code"] == "unknown_fields"]
    unknown = "method.reinforcement.hyperparameters.future_knob"
    assert told == {"code": "unknown_fields", "fields": [unknown]}
    async with await psycopg.AsyncConnection.connect(migrated_url) as connection:
        cursor = await connection.execute("select method from jobs where id = %s", (job.id,))
        row = await cursor.fetchone()
    assert row is not None
    assert row[0] == shown["method"], "what a run is made from"


async def test_hyperparameters_in_their_old_place_are_checked_there(client: AsyncOpenAI, training_file: str) -> None:
    with pytest.raises(BadRequestError, match="1 to 256") as raised:
        await client.fine_tuning.jobs.create(
            model="tiny",
            training_file=training_file,
            method=method(),  # pyright: ignore[reportArgumentType]
            hyperparameters={"batch_size": 512},
        )
    assert raised.value.param == "hyperparameters.batch_size"


async def test_a_dataset_may_begin_with_a_byte_order_mark_and_have_windows_lines(client: AsyncOpenAI) -> None:
    content = BYTE_ORDER_MARK + ROW.replace(b"\n", b"\r\n") + b"\r\n"
    file: Any = await client.files.create(file=("rows.jsonl", content, "application/jsonl"), purpose="fine-tune")
    assert (file.dataset["rows"], file.dataset["problems"], file.status_details) == (1, 0, None)
    assert (await client.files.content(file.id)).read() == content


def test_the_sdks_own_objects_are_orders_too(sdk: OpenAI, training_file: str) -> None:
    """The cookbooks build graders and methods from the SDK's response types."""
    exact = StringCheckGrader.model_validate(EXACT)
    job = sdk.fine_tuning.jobs.create(
        model="tiny",
        training_file=training_file,
        method={
            "type": "reinforcement",
            "reinforcement": ReinforcementMethod(  # pyright: ignore[reportArgumentType]
                grader=exact, hyperparameters=ReinforcementHyperparameters(reasoning_effort="medium", n_epochs=5)
            ),
        },
        seed=42,
    )
    assert job.method is not None
    assert job.method.reinforcement is not None
    assert job.method.reinforcement.grader == exact
    ordered = job.method.reinforcement.hyperparameters
    assert ordered is not None
    assert (ordered.reasoning_effort, ordered.n_epochs, ordered.batch_size) == ("medium", 5, "auto")


def test_a_multi_grader_of_the_sdks_types_is_told_what_is_wrong_with_them(sdk: OpenAI, training_file: str) -> None:
    """The SDK types `graders` as one grader; on the wire it is an object of graders by name."""
    grader = MultiGrader(
        type="multi", name="all", graders=StringCheckGrader.model_validate(EXACT), calculate_output="exact"
    )
    with pytest.raises(BadRequestError, match="object of graders by name") as raised:
        sdk.fine_tuning.jobs.create(
            model="tiny",
            training_file=training_file,
            method={"type": "reinforcement", "reinforcement": ReinforcementMethod(grader=grader)},  # pyright: ignore[reportArgumentType]
        )
    assert raised.value.param == "method.reinforcement.grader.graders"


def test_a_notebook_without_async_pages_through_its_jobs(sdk: OpenAI, training_file: str) -> None:
    jobs = sdk.fine_tuning.jobs
    order: Any = {"model": "tiny", "training_file": training_file, "method": method()}
    made = [jobs.create(**order, metadata={"run": str(number)}).id for number in range(3)]
    newest_first = made[::-1]
    assert [job.id for job in jobs.list(limit=1)] == newest_first
    pages = list(jobs.list(limit=2).iter_pages())
    assert [[job.id for job in page.data] for page in pages] == [newest_first[:2], newest_first[2:]]
    assert [page.has_more for page in pages] == [True, False]
    assert [job.id for job in jobs.list(metadata={"run": "1"}, extra_query={"metadata[other]": "x"})] == []
    assert [job.id for job in jobs.list(metadata={"run": "1"})] == [made[1]]
    assert list(jobs.list(extra_query={"metadata": "null"})) == []

    raw = jobs.with_raw_response.retrieve(made[0])
    assert (raw.status_code, raw.parse().id, str(raw.request_id)[:4]) == (200, made[0], "req_")
    with jobs.with_streaming_response.list_events(made[0], limit=1) as reply:
        page = reply.parse()
    assert (page.has_more, page.next_page_info() is not None) == (True, True)
    assert len(list(jobs.list_events(made[0], limit=1))) == len(jobs.list_events(made[0]).data) >= 2
    assert list(jobs.checkpoints.list(made[0])) == []


def test_a_notebook_without_async_keeps_its_files(sdk: OpenAI, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(ROW)
    with path.open("rb") as opened:
        files = [sdk.files.create(file=path, purpose="fine-tune"), sdk.files.create(file=opened, purpose="batch")]
    sdk.files.content(files[0].id).write_to_file(tmp_path / "copy.jsonl")
    assert (tmp_path / "copy.jsonl").read_bytes() == ROW
    assert {file.id for file in sdk.files.list(limit=1)} >= {file.id for file in files}
    assert sdk.files.wait_for_processing(files[1].id, poll_interval=0.01).status == "processed"


async def test_fields_of_the_reply_cannot_be_ordered(client: AsyncOpenAI, training_file: str) -> None:
    forged = {"id": "ftjob-mine", "status": "succeeded", "fine_tuned_model": "ft:mine", "trainingType": "standard"}
    order: Any = {"model": "tiny", "training_file": training_file, "method": method()}
    job: Any = await client.fine_tuning.jobs.create(**order, extra_body=forged)
    assert (job.id == "ftjob-mine", job.status, job.fine_tuned_model) == (False, "validating_files", None)
    assert job.trainingType == "standard"
    events: list[Any] = (await client.fine_tuning.jobs.list_events(job.id)).data
    (told,) = [event.data for event in events if event.data and event.data["code"] == "unknown_fields"]
    assert told == {"code": "unknown_fields", "fields": sorted(forged)}


async def test_a_name_with_other_letters_comes_back_as_it_was(client: AsyncOpenAI) -> None:
    file = await upload(client, name="prüfung; 1.jsonl")
    assert file.filename == "prüfung; 1.jsonl"
    reply = await client.files.with_raw_response.content(file.id)
    assert "pr%C3%BCfung%3B%201.jsonl" in reply.headers["content-disposition"]
    again = await client.files.create(file=("rows.JSONL", io.BytesIO(ROW)), purpose="fine-tune")
    assert again.filename == "rows.JSONL"


async def test_an_order_is_the_same_under_its_key_whoever_changed_the_job_since(
    client: AsyncOpenAI, plain_order: dict[str, Any]
) -> None:
    jobs, key = client.fine_tuning.jobs, {"Idempotency-Key": "once"}
    job = await jobs.create(**plain_order, extra_headers=key)
    await jobs.cancel(job.id)
    again = await jobs.create(**changed(plain_order, {}), extra_headers=key)
    assert (again.id, again.status) == (job.id, "cancelled")
