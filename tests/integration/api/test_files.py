"""Files through the official SDK."""

import asyncio
import io
import json
from collections.abc import AsyncIterator

import psycopg
import pytest
from openai import APIStatusError, AsyncOpenAI, BadRequestError, NotFoundError

from rft.platform.store.file_store import LocalFileStore, read_lines
from tests.shared.running_api import ROW, Api, collect, upload


async def test_a_file_makes_the_round_trip(client: AsyncOpenAI) -> None:
    content = b"".join(ROW for _ in range(40_000))
    file = await upload(client, content, name="rows of März.jsonl")
    assert file.object == "file"
    assert file.id.startswith("file-")
    assert len(file.id) == len("file-") + 22
    assert (file.bytes, file.filename, file.purpose) == (len(content), "rows of März.jsonl", "fine-tune")
    assert (await client.files.wait_for_processing(file.id)).status == "processed"
    assert (await client.files.retrieve(file.id)) == file
    assert (await client.files.content(file.id)).read() == content


async def test_a_download_names_its_file(client: AsyncOpenAI) -> None:
    file = await upload(client, name='a"b\\c/../März.jsonl')
    reply = await client.files.with_raw_response.content(file.id)
    assert file.filename == "März.jsonl"
    assert reply.headers["content-disposition"] == "attachment; filename*=utf-8''M%C3%A4rz.jsonl"
    assert int(reply.headers["content-length"]) == len(ROW)


async def test_a_quotation_mark_in_a_name_arrives_as_one(client: AsyncOpenAI) -> None:
    assert (await upload(client, name='my "rows".jsonl')).filename == 'my "rows".jsonl'


async def test_lists_are_paged_in_both_orders(client: AsyncOpenAI) -> None:
    ids = [(await upload(client, name=f"{number}.jsonl")).id for number in range(5)]
    other = await client.files.create(file=("notes.txt", io.BytesIO(b"hello")), purpose="user_data")
    newest = await collect(client.files.list(limit=2, purpose="fine-tune"))
    assert [file.id for file in newest] == ids[::-1]
    oldest = await collect(client.files.list(limit=2, order="asc", purpose="fine-tune"))
    assert [file.id for file in oldest] == ids
    page = await client.files.list(limit=2)
    raw = page.to_dict()
    assert raw["has_more"] is True
    assert (raw["first_id"], raw["last_id"]) == (other.id, ids[-1])
    last = (await client.files.list(after=ids[0])).to_dict()
    assert last == {"object": "list", "data": [], "has_more": False, "first_id": None, "last_id": None}


async def test_a_deleted_file_is_gone_with_its_bytes(client: AsyncOpenAI, api: Api) -> None:
    file = await upload(client)
    assert [path.name for path in api.settings.files_dir.iterdir()] == [file.id]
    deleted = await client.files.delete(file.id)
    assert (deleted.id, deleted.object, deleted.deleted) == (file.id, "file", True)
    assert not list(api.settings.files_dir.iterdir())
    for call in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(NotFoundError) as raised:
            await call(file.id)
        assert raised.value.code == "not_found"
        assert file.id in raised.value.message


async def test_a_file_of_an_unfinished_job_stays(client: AsyncOpenAI, order: dict[str, object]) -> None:
    job = await client.fine_tuning.jobs.create(**order)  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(BadRequestError, match=job.id) as raised:
        await client.files.delete(job.training_file)
    assert raised.value.code == "file_in_use"
    await client.fine_tuning.jobs.cancel(job.id)
    assert (await client.files.delete(job.training_file)).deleted


async def test_an_expired_file_is_gone(client: AsyncOpenAI, migrated_url: str) -> None:
    file = await client.files.create(
        file=("short.jsonl", io.BytesIO(ROW)),
        purpose="fine-tune",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )
    assert file.expires_at == file.created_at + 3600
    async with await psycopg.AsyncConnection.connect(migrated_url) as connection:
        await connection.execute("update files set expires_at = now() - interval '1 second'")
    with pytest.raises(NotFoundError):
        await client.files.retrieve(file.id)
    assert await collect(client.files.list()) == []


@pytest.mark.parametrize(
    ("name", "content", "purpose", "param", "code"),
    [
        ("rows.csv", ROW, "fine-tune", "file", "invalid_file_format"),
        ("rows.jsonl", b"", "fine-tune", "file", "invalid_file_format"),
        ("x" * 300 + ".jsonl", ROW, "fine-tune", "file", "invalid_value"),
        ("rows.jsonl", ROW, "cooking", "purpose", "invalid_value"),
    ],
)
async def test_bad_uploads_leave_nothing(
    client: AsyncOpenAI, api: Api, name: str, content: bytes, purpose: str, param: str, code: str
) -> None:
    with pytest.raises(BadRequestError) as raised:
        await client.files.create(file=(name, io.BytesIO(content)), purpose=purpose)  # pyright: ignore[reportArgumentType]
    assert (raised.value.param, raised.value.code, raised.value.type) == (param, code, "invalid_request_error")
    assert not list(api.settings.files_dir.glob("*"))


async def test_an_upload_without_a_file(client: AsyncOpenAI) -> None:
    with pytest.raises(BadRequestError) as raised:
        await client.post("/files", body={"purpose": "fine-tune"}, cast_to=object)
    assert raised.value.param == "file"


async def test_an_oversize_upload_is_refused_before_it_is_read(api: Api) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rsplit(":", 1)[1]))
    head = (
        "POST /v1/files HTTP/1.1",
        "host: here",
        f"authorization: Bearer {api.key}",
        "content-type: multipart/form-data; boundary=b",
        f"content-length: {600 << 20}",
    )
    writer.write("\r\n".join((*head, "", "")).encode())
    status = await reader.readline()
    await reader.readuntil(b"\r\n\r\n")
    error = json.loads(await reader.readuntil(b"}}"))["error"]
    writer.close()
    await writer.wait_closed()
    assert status.split()[1] == b"413"
    assert (error["type"], error["code"]) == ("invalid_request_error", "request_too_large")
    assert not list(api.settings.files_dir.glob("*"))


async def test_an_oversize_order_is_refused_though_its_size_is_not_announced(client: AsyncOpenAI) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b'{"model": "'
        for _ in range(9):
            yield b"x" * (1 << 20)

    with pytest.raises(APIStatusError) as raised:
        await client.post(
            "/fine_tuning/jobs",
            content=endless(),
            cast_to=object,
            options={"headers": {"content-type": "application/json"}},
        )
    assert (raised.value.status_code, raised.value.code) == (413, "request_too_large")


@pytest.mark.parametrize(
    "query", [{"limit": 0}, {"limit": 10_001}, {"limit": "many"}, {"order": "up"}, {"after": "file-x"}]
)
async def test_bad_queries_name_their_parameter(client: AsyncOpenAI, query: dict[str, object]) -> None:
    with pytest.raises(BadRequestError) as raised:
        await client.get("/files", options={"params": query}, cast_to=object)
    assert raised.value.param == next(iter(query))


async def test_lines_are_read_across_chunks(tmp_path_factory: pytest.TempPathFactory) -> None:
    store = LocalFileStore(tmp_path_factory.mktemp("files"))
    lines = [json.dumps({"n": number, "text": "x" * (number % 7) * 1000}).encode() for number in range(3000)]

    async def chunks():
        blob = b"\n".join(lines)
        for start in range(0, len(blob), 65_521):
            yield blob[start : start + 65_521]

    assert await store.put("key", chunks()) == sum(map(len, lines)) + len(lines) - 1
    assert [line async for line in read_lines("key", store)] == lines


async def test_a_broken_stream_leaves_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("files")

    async def chunks():
        yield b"x" * (1 << 20)
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await LocalFileStore(folder).put("key", chunks())
    assert not list(folder.iterdir())
