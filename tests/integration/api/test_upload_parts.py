"""Large files in parts: `/v1/uploads` under the official SDK."""

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import (
    AsyncAzureOpenAI,
    AsyncOpenAI,
    BadRequestError,
    InternalServerError,
    NotFoundError,
    OpenAI,
)
from openai.types import Upload

from rft.platform.files.sweeping import sweep_orphaned_blobs
from rft.platform.store.database import Database
from rft.platform.store.file_store import LocalFileStore
from rft.platform.uploads.sweeping import sweep_uploads
from tests.integration.api.form import END, FORM, part
from tests.shared.running_api import ROW, Api, upload
from tests.shared.waiting import until

ROWS = ROW * 3_000


async def create(client: AsyncOpenAI, size: int = len(ROWS), **fields: Any) -> Upload:
    """An upload of so many bytes."""
    wanted: Any = {"filename": "train.jsonl", "mime_type": "application/jsonl", "purpose": "fine-tune", **fields}
    return await client.uploads.create(bytes=size, **wanted)


async def add(client: AsyncOpenAI, upload_id: str, content: bytes) -> str:
    """The id of a new part."""
    return (await client.uploads.parts.create(upload_id, data=content)).id


def kept(api: Api) -> set[str]:
    """Keys of all bytes in the store."""
    return {path.name for path in api.settings.files_dir.glob("*")}


async def test_the_sdks_own_helper_uploads_a_file_that_a_job_takes(
    client: AsyncOpenAI, api: Api, order: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(ROWS)
    done = await client.uploads.upload_file_chunked(
        file=path, mime_type="application/jsonl", purpose="fine-tune", part_size=100_000, md5=md5_of(ROWS)
    )
    assert (done.status, done.bytes, done.object, done.filename) == ("completed", len(ROWS), "upload", "rows.jsonl")
    assert done.expires_at == done.created_at + 3600
    assert done.file is not None
    shown: Any = await client.files.retrieve(done.file.id)
    assert shown == done.file
    assert (shown.bytes, shown.purpose, shown.dataset["rows"], shown.expires_at) == (len(ROWS), "fine-tune", 3000, None)
    assert (await client.files.content(shown.id)).read() == ROWS
    assert kept(api) == {shown.id, order["training_file"]}, "no part is left"
    job = await client.fine_tuning.jobs.create(**{**order, "training_file": shown.id})
    assert job.training_file == shown.id


def test_bytes_in_memory_and_the_synchronous_client_do_as_well(api: Api) -> None:
    with OpenAI(base_url=f"{api.url}/openai/v1", api_key=api.key, max_retries=0) as sdk:
        done = sdk.uploads.upload_file_chunked(
            file=ROWS, filename="a.txt", bytes=len(ROWS), mime_type="text/plain", purpose="user_data", part_size=1 << 20
        )
        assert done.file is not None
        assert (done.file.purpose, sdk.files.content(done.file.id).read()) == ("user_data", ROWS)


async def test_parts_through_azures_client_in_an_order_of_their_own(api: Api) -> None:
    async with AsyncAzureOpenAI(azure_endpoint=api.url, api_key=api.key, api_version="x", max_retries=0) as client:
        made = await create(client, expires_after={"anchor": "created_at", "seconds": 3600})
        assert (made.status, made.file) == ("pending", None)
        cuts = [ROWS[:70_000], ROWS[70_000:70_001], ROWS[70_001:]]
        last, middle, unused, first = await asyncio.gather(
            *(add(client, made.id, content) for content in (cuts[2], cuts[1], b"of a lost reply", cuts[0]))
        )
        done = await client.uploads.complete(made.id, part_ids=[first, middle, last], md5=md5_of(ROWS).upper())
        assert done.file is not None
        assert done.file.expires_at == done.file.created_at + 3600
        assert (await client.files.content(done.file.id)).read() == ROWS
    assert kept(api) == {done.file.id}, f"{unused} is gone, too"


async def test_a_lost_reply_can_be_asked_for_again(client: AsyncOpenAI, api: Api) -> None:
    made = await create(client)
    parts = [await add(client, made.id, ROWS)]
    first, second = await asyncio.gather(*(client.uploads.complete(made.id, part_ids=parts) for _ in range(2)))
    assert first == second == await client.uploads.complete(made.id, part_ids=parts)
    assert first.file is not None
    assert kept(api) == {first.file.id}
    await client.files.delete(first.file.id)
    assert (await client.uploads.complete(made.id, part_ids=parts)).file is None


async def test_a_completed_upload_has_its_bytes_where_its_parts_could_not_be_deleted(
    client: AsyncOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await create(client)
    parts = [await add(client, made.id, ROWS)]
    delete = LocalFileStore.delete

    async def delete_no_part(store: LocalFileStore, key: str) -> None:
        if key in parts:
            raise PermissionError("not now")
        await delete(store, key)

    with monkeypatch.context() as broken:
        broken.setattr(LocalFileStore, "delete", delete_no_part)
        with pytest.raises(InternalServerError):
            await client.uploads.complete(made.id, part_ids=parts)
    done = await client.uploads.complete(made.id, part_ids=parts)
    assert done.file is not None
    assert (await client.files.content(done.file.id)).read() == ROWS


async def test_what_does_not_fit_together_is_refused_and_can_be_mended(client: AsyncOpenAI, api: Api) -> None:
    made, other = await create(client), await create(client)
    head, tail = await add(client, made.id, ROWS[:9]), await add(client, made.id, ROWS[9:])
    foreign = await add(client, other.id, ROWS[9:])
    wrongs: list[tuple[dict[str, Any], str, str]] = [
        ({"part_ids": [head]}, "part_ids", "wrong_size"),
        ({"part_ids": [head, head]}, "part_ids[1]", "invalid_value"),
        ({"part_ids": [head, foreign]}, "part_ids[1]", "part_not_found"),
        ({"part_ids": []}, "part_ids", "invalid_value"),
        ({"part_ids": [head, tail], "md5": md5_of(b"")}, "md5", "wrong_checksum"),
        ({"part_ids": [head, tail], "md5": "abc"}, "md5", "invalid_value"),
    ]
    before = kept(api)
    for wrong, param, code in wrongs:
        with pytest.raises(BadRequestError) as raised:
            await client.uploads.complete(made.id, **wrong)
        assert (raised.value.param, raised.value.code) == (param, code), wrong
        assert kept(api) == before
    assert (await client.uploads.complete(made.id, part_ids=[head, tail])).status == "completed"


async def test_a_cancelled_upload_is_gone_and_takes_nothing_more(client: AsyncOpenAI, api: Api) -> None:
    made = await create(client)
    part_id = await add(client, made.id, ROWS)
    assert (await client.uploads.cancel(made.id)).status == "cancelled"
    assert (await client.uploads.cancel(made.id)).status == "cancelled"
    assert kept(api) == set()
    for again in (client.uploads.complete(made.id, part_ids=[part_id]), add(client, made.id, ROWS)):
        with pytest.raises(BadRequestError) as raised:
            await again
        assert raised.value.code == "invalid_state"
    done = await create(client, len(ROW))
    await client.uploads.complete(done.id, part_ids=[await add(client, done.id, ROW)])
    with pytest.raises(BadRequestError, match="completed"):
        await client.uploads.cancel(done.id)
    for nothing in (client.uploads.cancel("upload_none"), add(client, "upload_none", ROW)):
        with pytest.raises(NotFoundError):
            await nothing


async def test_an_upload_expires_with_its_parts(client: AsyncOpenAI, api: Api, migrated_url: str) -> None:
    late, done = await create(client), await create(client, len(ROW))
    part_id = await add(client, late.id, ROWS)
    file = (await client.uploads.complete(done.id, part_ids=[await add(client, done.id, ROW)])).file
    assert file is not None
    store = LocalFileStore(api.settings.files_dir)
    async with Database(migrated_url, max_connections=2) as database:
        assert await sweep_uploads(database, store) == 0
        async with database.transaction() as connection:
            await connection.execute("update uploads set expires_at = now()")
        with pytest.raises(BadRequestError, match="expired"):
            await client.uploads.complete(late.id, part_ids=[part_id])
        # Of the completed one's part only the note is left that it was to go.
        assert (await sweep_uploads(database, store), await sweep_orphaned_blobs(database, store)) == (1, 2)
        assert kept(api) == {file.id}
        assert (
            await client.uploads.complete(done.id, part_ids=[*await completed_with(database, done.id)])
        ).file == file
        async with database.transaction() as connection:
            await connection.execute("update uploads set expires_at = now() - interval '2 days'")
        assert await sweep_uploads(database, store) == 2
    with pytest.raises(NotFoundError):
        await client.uploads.cancel(late.id)
    assert (await client.files.content(file.id)).read() == ROW


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"size": (512 << 20) + 1}, "bytes"),
        ({"size": 0}, "bytes"),
        ({"filename": "rows.csv"}, "filename"),
        ({"filename": ""}, "filename"),
        ({"filename": "a\nb.jsonl"}, "filename"),
        ({"purpose": "theft"}, "purpose"),
        ({"expires_after": {"anchor": "created_at", "seconds": 60}}, "expires_after.seconds"),
        ({"expires_after": {"anchor": "created_at"}}, "expires_after.seconds"),
    ],
)
async def test_what_could_be_no_file_is_refused_at_once(
    client: AsyncOpenAI, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(BadRequestError) as raised:
        await create(client, **fields)
    assert raised.value.param == param


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        (part("data", b"", filename="upload") + END, "data", "invalid_value"),
        (part("file", ROW, filename="upload") + END, "data", "missing_required_parameter"),
        (part("data", ROW) + END, "data", "missing_required_parameter"),
        (part("data", ROW, filename="upload") * 2 + END, "data", "invalid_value"),
        (part("data", ROW, filename="upload"), None, "invalid_form"),
    ],
)
async def test_a_bad_part_leaves_nothing(client: AsyncOpenAI, api: Api, body: bytes, param: str, code: str) -> None:
    made = await create(client)
    reply = await send_part(api, made.id, body)
    error = reply.json()["error"]
    assert (reply.status_code, error["param"], error["code"]) == (400, param, code)
    assert kept(api) == set()


async def test_parts_are_bounded_one_by_one_and_together(client: AsyncOpenAI, api: Api) -> None:
    large, made = await create(client, 64 << 20), await create(client, 8 << 20)
    reply = await send_part(api, large.id, a_part((64 << 20) + 1))
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "part_too_large")
    assert kept(api) == set()
    assert await refusal_of_part(api, made.id, (16 << 20) + 1) == "too_many_parts"
    await add(client, made.id, b"x" * (9 << 20))
    assert await refusal_of_part(api, made.id, (7 << 20) + 1) == "too_many_parts"
    assert len(kept(api)) == 1
    await add(client, made.id, b"x" * (7 << 20))
    assert await refusal_of_part(api, made.id, 1) == "too_many_parts"


async def test_parts_that_come_at_once_are_bounded_together(client: AsyncOpenAI, api: Api) -> None:
    """Each finds room when it begins."""
    made, begun, go_on = await create(client, len(ROW)), asyncio.Semaphore(0), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield a_part(2 * len(ROW) - 1).removesuffix(END)
        begun.release()
        await go_on.wait()
        yield END

    sending = [asyncio.create_task(send_part(api, made.id, slow())) for _ in range(2)]
    for _ in sending:
        await begun.acquire()
    await until(lambda: len(kept(api)) == 2, "the parts' bytes")
    go_on.set()
    assert sorted([(await part).status_code for part in sending]) == [200, 400]
    await until(lambda: len(kept(api)) == 1, "the refused one's bytes to go")


def a_part(size: int) -> bytes:
    """A form with a part of so many bytes."""
    return part("data", b"x" * size, filename="upload") + END


async def refusal_of_part(api: Api, upload_id: str, size: int) -> str:
    """Why a part of so many bytes is refused."""
    reply = await send_part(api, upload_id, a_part(size))
    assert reply.status_code == 400
    return reply.json()["error"]["code"]


async def test_a_part_that_comes_too_late_is_not_kept(client: AsyncOpenAI, api: Api) -> None:
    made, arrived, go_on = await create(client, 2 << 20), asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield part("data", ROW, filename="upload").removesuffix(b"\r\n") + b"x" * (2 << 20)
        arrived.set()
        await go_on.wait()
        yield b"\r\n" + END

    sending = asyncio.create_task(send_part(api, made.id, slow()))
    await arrived.wait()
    await until(lambda: bool(kept(api)), "the first bytes of the part")
    assert (await client.uploads.cancel(made.id)).status == "cancelled"
    go_on.set()
    assert (await sending).json()["error"]["code"] == "invalid_state"
    assert kept(api) == set()


async def test_files_and_uploads_are_told_the_same(client: AsyncOpenAI) -> None:
    made = await create(client)
    done = await client.uploads.complete(made.id, part_ids=[await add(client, made.id, ROWS)])
    plain: Any = await client.files.create(file=("train.jsonl", io.BytesIO(ROWS)), purpose="fine-tune")
    assert done.file is not None
    assert {**done.file.to_dict(), "id": "", "created_at": 0} == {**plain.to_dict(), "id": "", "created_at": 0}
    listed = [file.id async for file in client.files.list()]
    assert listed == [plain.id, done.file.id]
    assert (await upload(client)).id not in listed


def md5_of(content: bytes) -> str:
    """As customers compute it."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


async def send_part(api: Api, upload_id: str, body: bytes | AsyncIterator[bytes]) -> httpx.Response:
    """A part as another client than the SDK would send it."""
    headers = {"content-type": FORM, "authorization": f"Bearer {api.key}"}
    async with httpx.AsyncClient(timeout=120, headers=headers) as client:
        return await client.post(f"{api.url}/v1/uploads/{upload_id}/parts", content=body)


async def completed_with(database: Database, upload_id: str) -> list[str]:
    """The parts that an upload was completed with."""
    async with database.transaction() as connection:
        row = await (await connection.execute("select part_ids from uploads where id = %s", (upload_id,))).fetchone()
    assert row is not None
    return row[0]
