"""Models and checkpoints through the official SDK, with rows as a runner writes them."""

import hashlib
import io
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from psycopg.types.json import Jsonb

from rft.platform.api.dependencies import Services
from rft.platform.models.endpoints import retrieve_model_adapter
from rft.platform.store.database import Database
from rft.platform.store.file_store import LocalFileStore
from rft.platform.store.secret_box import SecretBox
from tests.shared.running_api import Api, collect

STEPS = {0: True, 2: True, 4: False, 6: True}
"""Steps that have a checkpoint, and whether it was kept."""


@pytest.fixture
async def job_id(client: AsyncOpenAI, order: dict[str, Any], migrated_url: str, api: Api) -> str:
    """A job that trained and succeeded."""
    job = await client.fine_tuning.jobs.create(**order, suffix="my run")
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        for step, is_kept in STEPS.items():
            path = f"checkpoints/checkpoint-{step}/adapter"
            await connection.execute(
                "insert into checkpoints (id, job_id, step, path, metrics, is_kept) values (%s, %s, %s, %s, %s, %s)",
                (
                    f"ftckpt_{step}",
                    job.id,
                    step,
                    path,
                    Jsonb({"step": step, "full_valid_mean_reward": step / 10}),
                    is_kept,
                ),
            )
            (api.settings.runs_dir / job.id / path).mkdir(parents=True)
        await connection.execute(
            "update jobs set status = 'succeeded', best_step = 6, finished_at = now(), fine_tuned_model = %s",
            (f"ft:tiny:local:my-run:{job.id[-8:]}",),
        )
    return job.id


def adapter(api: Api, job_id: str, step: int) -> Path:
    """Where the adapter of a step lies."""
    return api.settings.runs_dir / job_id / f"checkpoints/checkpoint-{step}/adapter"


async def test_kept_checkpoints_are_listed_newest_first(client: AsyncOpenAI, job_id: str) -> None:
    checkpoints = client.fine_tuning.jobs.checkpoints
    listed = await collect(checkpoints.list(job_id, limit=1))
    assert [checkpoint.step_number for checkpoint in listed] == [6, 2, 0]
    newest = listed[0]
    assert newest.object == "fine_tuning.job.checkpoint"
    assert newest.fine_tuning_job_id == job_id
    assert newest.fine_tuned_model_checkpoint == f"ft:tiny:local:my-run:{job_id[-8:]}:ckpt-step-6"
    assert newest.metrics.full_valid_mean_reward == 0.6
    page = (await checkpoints.list(job_id, limit=2)).to_dict()
    assert (page["first_id"], page["last_id"], page["has_more"]) == ("ftckpt_6", "ftckpt_2", True)
    with pytest.raises(BadRequestError) as raised:
        await checkpoints.list(job_id, after="ftckpt_none")
    assert raised.value.param == "after"


async def test_base_models_are_listed_and_found(client: AsyncOpenAI) -> None:
    models = await collect(client.models.list())
    assert [model.id for model in models] == ["lab/tiny", "lost", "starter", "tiny"]
    assert {model.owned_by for model in models} == {"system"}
    found = await client.models.retrieve("lab/tiny")
    assert (found.id, found.object) == ("lab/tiny", "model")
    assert found.created > 0


async def test_fine_tuned_models_are_listed_and_found(client: AsyncOpenAI, job_id: str) -> None:
    final = f"ft:tiny:local:my-run:{job_id[-8:]}"
    names = [model.id for model in await collect(client.models.list())]
    assert names[4:] == [final, f"{final}:ckpt-step-6", f"{final}:ckpt-step-2", f"{final}:ckpt-step-0"]
    for name in names[4:]:
        model = await client.models.retrieve(name)
        assert (model.id, model.owned_by) == (name, "local")
    assert (await client.fine_tuning.jobs.retrieve(job_id)).fine_tuned_model == final


@pytest.mark.parametrize(
    "name",
    [
        "gpt-5",
        "ft:tiny:local:my-run:AAAAAAAA",
        "ft:other:local:my-run:{tail}",
        "ft:tiny:local:my-run:{tail}:ckpt-step-4",
    ],
)
async def test_unknown_models_are_not_found(client: AsyncOpenAI, job_id: str, name: str) -> None:
    name = name.format(tail=job_id[-8:])
    for call in (client.models.retrieve, client.models.delete):
        with pytest.raises(NotFoundError) as raised:
            await call(name)
        assert (raised.value.code, raised.value.param) == ("model_not_found", "model")


async def test_a_deleted_checkpoint_is_gone_with_its_adapter(client: AsyncOpenAI, job_id: str, api: Api) -> None:
    name = f"ft:tiny:local:my-run:{job_id[-8:]}:ckpt-step-2"
    deleted = await client.models.delete(name)
    assert (deleted.id, deleted.deleted) == (name, True)
    assert not adapter(api, job_id, 2).exists()
    with pytest.raises(NotFoundError):
        await client.models.retrieve(name)
    listed = await collect(client.fine_tuning.jobs.checkpoints.list(job_id))
    assert [checkpoint.step_number for checkpoint in listed] == [6, 0]


@pytest.mark.parametrize("parts", [("", ":ckpt-step-6"), (":ckpt-step-6", "")])
async def test_the_best_adapter_goes_with_its_last_name(
    client: AsyncOpenAI, job_id: str, api: Api, parts: tuple[str, str]
) -> None:
    final = f"ft:tiny:local:my-run:{job_id[-8:]}"
    await client.models.delete(final + parts[0])
    assert adapter(api, job_id, 6).exists()
    await client.models.delete(final + parts[1])
    assert not adapter(api, job_id, 6).exists()
    assert (await client.fine_tuning.jobs.retrieve(job_id)).fine_tuned_model == final, "history stays"


async def test_base_models_and_models_in_the_making_stay(client: AsyncOpenAI, job_id: str, migrated_url: str) -> None:
    with pytest.raises(BadRequestError) as raised:
        await client.models.delete("lab/tiny")
    assert raised.value.code == "invalid_model"
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        await connection.execute("update jobs set status = 'running'")
    with pytest.raises(BadRequestError, match="running") as raised:
        await client.models.delete(f"ft:tiny:local:my-run:{job_id[-8:]}:ckpt-step-2")
    assert raised.value.code == "model_in_use"


async def test_what_an_eval_run_samples_from_stays(client: AsyncOpenAI, job_id: str, migrated_url: str) -> None:
    model = f"ft:tiny:local:my-run:{job_id[-8:]}:ckpt-step-2"
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        await connection.execute(
            "insert into evals (id, name, data_source_config, testing_criteria, sealed)"
            " values ('e', 'e', '{}', '[]', '')"
        )
        await connection.execute(
            "insert into eval_runs (id, eval_id, status, name, model, data_source, samples_per_row, seed)"
            " values ('evalrun_1', 'e', 'in_progress', 'r', %s, '{}', 1, 0)",
            (model,),
        )
        with pytest.raises(BadRequestError, match="evalrun_1 samples from") as raised:
            await client.models.delete(model)
        assert raised.value.code == "model_in_use"
        final = model.removesuffix(":ckpt-step-2")
        assert (await client.models.delete(final)).deleted, "its checkpoints stay"
        await connection.execute("update eval_runs set status = 'canceled'")
        assert (await client.models.delete(model)).deleted


async def test_an_adapter_s_download_holds_no_connection_while_it_reads_the_files(
    job_id: str, api: Api, migrated_url: str
) -> None:
    """They may be three of half a gigabyte: a few downloads would leave no connection to anybody else."""
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (adapter(api, job_id, 6) / name).write_text("{}")
    read = list[str]()

    class WatchedStore(LocalFileStore):
        async def open(self, key: str) -> AsyncIterator[bytes]:
            await database.ping()
            read.append(key)
            return await super().open(key)

    async with Database(migrated_url, max_connections=1) as database:
        services = Services(
            settings=api.settings,
            database=database,
            file_store=WatchedStore(api.settings.files_dir),
            secret_box=SecretBox.at(api.settings.home),
        )
        reply = await retrieve_model_adapter(services, f"ft:tiny:local:my-run:{job_id[-8:]}")
        archive = b"".join([bytes(piece) async for piece in reply.body_iterator if not isinstance(piece, str)])
    card = zipfile.ZipFile(io.BytesIO(archive)).read("README.md").decode()
    [file_id] = read
    stored = (api.settings.files_dir / file_id).read_bytes()
    assert f"`{file_id}`" in card
    assert hashlib.sha256(stored).hexdigest() in card


async def test_checkpoint_permissions_make_the_round_trip(client: AsyncOpenAI, job_id: str) -> None:
    name = f"ft:tiny:local:my-run:{job_id[-8:]}:ckpt-step-6"
    permissions = client.fine_tuning.checkpoints.permissions
    made = await collect(permissions.create(name, project_ids=["proj_a", "proj_b", "proj_a"]))
    assert {permission.project_id for permission in made} == {"proj_a", "proj_b"}
    assert all(permission.id.startswith("cp_") and len(permission.id) == 27 for permission in made)
    await collect(permissions.create(name, project_ids=["proj_b", "proj_c"]))
    newest = await collect(permissions.list(name, limit=1))
    assert [permission.project_id for permission in newest] == ["proj_c", "proj_b", "proj_a"]
    oldest = await collect(permissions.list(name, limit=2, order="ascending"))
    assert [permission.project_id for permission in oldest] == ["proj_a", "proj_b", "proj_c"]
    assert [entry.object for entry in await collect(permissions.list(name, project_id="proj_c"))] == [
        "checkpoint.permission"
    ]
    with pytest.warns(DeprecationWarning, match="deprecated"):
        page = await permissions.retrieve(name, limit=2)  # pyright: ignore[reportDeprecated]
    assert (len(page.data), page.has_more, page.last_id) == (2, True, page.data[-1].id)
    deleted = await permissions.delete(newest[0].id, fine_tuned_model_checkpoint=name)
    assert (deleted.id, deleted.deleted, deleted.object) == (newest[0].id, True, "checkpoint.permission")
    with pytest.raises(NotFoundError) as raised:
        await permissions.delete(newest[0].id, fine_tuned_model_checkpoint=name)
    assert raised.value.code == "permission_not_found"
    final = f"ft:tiny:local:my-run:{job_id[-8:]}"
    assert await collect(permissions.list(final)) == [], "each name has permissions of its own"


@pytest.mark.parametrize("age", ["ascending", "descending"])
async def test_all_permissions_can_be_deleted_while_they_are_listed(client: AsyncOpenAI, job_id: str, age: Any) -> None:
    name = f"ft:tiny:local:my-run:{job_id[-8:]}"
    permissions = client.fine_tuning.checkpoints.permissions
    await collect(permissions.create(name, project_ids=[f"proj_{letter}" for letter in "abcde"]))
    seen = 0
    async for permission in permissions.list(name, limit=2, order=age):
        await permissions.delete(permission.id, fine_tuned_model_checkpoint=name)
        seen += 1
    assert seen == 5
    assert await collect(permissions.list(name)) == []


async def test_only_checkpoints_have_permissions(client: AsyncOpenAI, job_id: str) -> None:
    permissions = client.fine_tuning.checkpoints.permissions
    for name in ("lab/tiny", f"ft:tiny:local:my-run:{job_id[-8:]}:ckpt-step-4"):
        with pytest.raises(NotFoundError) as raised:
            await permissions.create(name, project_ids=["proj_a"])
        assert raised.value.code == "model_not_found"
    with pytest.raises(BadRequestError) as refused:
        await permissions.create(f"ft:tiny:local:my-run:{job_id[-8:]}", project_ids=[])
    assert refused.value.param == "project_ids"
