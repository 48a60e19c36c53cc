"""Uploads as they come over the wire: streamed to the store, read along by the validator, bounded in memory."""

import io
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest
from openai import APIStatusError, AsyncOpenAI, NotFoundError

from rft.platform.api.keys import create_key
from rft.platform.files.repository import FileRepository
from rft.platform.files.storage import LocalFileStore
from rft.platform.files.sweeping import sweep_expired
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from tests.integration.api.running_api import ROW, Api, BellTower, upload

BOUNDARY = "the-boundary"
_MIB = 1 << 20


def part(name: str, content: bytes, *, filename: str | None = None) -> bytes:
    """One part of a form, written by hand."""
    file = f'; filename="{filename}"' if filename is not None else ""
    head = f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="{name}"{file}\r\n\r\n'
    return head.encode() + content + b"\r\n"


FORM = f"multipart/form-data; boundary={BOUNDARY}"
END = f"--{BOUNDARY}--\r\n".encode()


async def send(api: Api, body: bytes | AsyncIterator[bytes], *, content_type: str = FORM) -> httpx.Response:
    """A form as another client than the SDK would write it."""
    async with httpx.AsyncClient(timeout=120) as client:
        headers = {"content-type": content_type, "authorization": f"Bearer {api.key}"}
        return await client.post(f"{api.url}/v1/files", content=body, headers=headers)


async def test_the_dataset_is_described_at_upload(client: AsyncOpenAI) -> None:
    tools = [{"type": "function", "function": {"name": "search"}}]
    row = json.dumps({"messages": [{"role": "user", "content": "How much?"}], "tools": tools}).encode()
    shown: Any = (await upload(client, row + b"\n" + row + b"\n{oops\n")).to_dict()
    assert (shown["status"], shown["bytes"]) == ("processed", 2 * len(row) + 8)
    assert shown["dataset"] == {
        "rows": 2,
        "problems": 1,
        "first_problems": ["line 3: not JSON (Expecting property name enclosed in double quotes at column 2)"],
        "duplicates": 1,
        "tools": ["search"],
        "longest_row_tokens": 13,
    }
    assert "line 3: not JSON" in shown["status_details"]
    assert (await client.files.retrieve(shown["id"])).to_dict() == shown


async def test_a_good_file_has_no_details_and_other_purposes_no_dataset(client: AsyncOpenAI) -> None:
    assert (await upload(client)).status_details is None
    notes: Any = await client.files.create(file=("notes.txt", b"{oops"), purpose="user_data")
    assert (notes.status_details, notes.dataset) == (None, None)


async def test_the_file_may_come_before_its_purpose(client: AsyncOpenAI, api: Api) -> None:
    body = part("file", ROW, filename="rows.jsonl") + part("purpose", b"fine-tune") + END
    shown = (await send(api, body)).json()
    assert (shown["filename"], shown["bytes"], shown["dataset"]["rows"]) == ("rows.jsonl", len(ROW), 1)
    assert (await client.files.content(shown["id"])).read() == ROW


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        (part("purpose", b"fine-tune") + END, "file", "missing_required_parameter"),
        (part("file", ROW, filename="rows.jsonl") + END, "purpose", "missing_required_parameter"),
        (part("file", ROW) + part("purpose", b"fine-tune") + END, "file", "missing_required_parameter"),
        (part("file", ROW, filename="rows.csv") + part("purpose", b"fine-tune") + END, "file", "invalid_file_format"),
        (part("file", ROW, filename="a.jsonl") * 2 + END, "file", "invalid_value"),
        (part("purpose", b"fine-tune") + part("file", ROW, filename="a.jsonl"), None, "invalid_form"),
        (b"no form at all", None, "invalid_form"),
        (part("purpose", b"x" * 70_000) + END, "purpose", "invalid_value"),
        (
            part("purpose", b"evals") + part("expires_after[seconds]", b"60") + part("file", ROW, filename="a") + END,
            "expires_after[seconds]",
            "invalid_value",
        ),
    ],
)
async def test_bad_forms_are_told_apart_and_leave_nothing(api: Api, body: bytes, param: str | None, code: str) -> None:
    reply = await send(api, body)
    error = reply.json()["error"]
    assert (reply.status_code, error["param"], error["code"]) == (400, param, code)
    assert not list(api.settings.files_dir.glob("*"))


async def test_a_body_that_is_no_form_is_told_so(api: Api) -> None:
    for content_type in ("application/json", "multipart/form-data", "text/plain; boundary=x"):
        reply = await send(api, b"{}", content_type=content_type)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "file")


async def test_an_upload_without_a_key_is_refused_before_anything_is_stored(api: Api) -> None:
    async with AsyncOpenAI(base_url=f"{api.url}/v1", api_key="wrong", max_retries=0) as stranger:
        with pytest.raises(APIStatusError) as raised:
            await upload(stranger, ROW * 100_000)
    assert raised.value.status_code == 401
    assert not list(api.settings.files_dir.glob("*"))


async def test_expired_files_are_swept_with_their_bytes(client: AsyncOpenAI, api: Api, migrated_url: str) -> None:
    short, long, forever = [
        await client.files.create(
            file=("rows.jsonl", io.BytesIO(ROW)),
            purpose="fine-tune",
            **({} if seconds is None else {"expires_after": {"anchor": "created_at", "seconds": seconds}}),  # pyright: ignore[reportArgumentType]
        )
        for seconds in (3600, 7200, None)
    ]
    store = LocalFileStore(api.settings.files_dir)
    async with Database(migrated_url, max_connections=2) as database:
        assert await sweep_expired(database, store) == 0
        async with database.transaction() as connection:
            await connection.execute("update files set expires_at = now() where id = %s", (short.id,))
        assert await sweep_expired(database, store) == 1
        assert await sweep_expired(database, store) == 0
    assert {path.name for path in api.settings.files_dir.iterdir()} == {long.id, forever.id}
    with pytest.raises(NotFoundError):
        await client.files.retrieve(short.id)


async def test_a_file_of_our_own_making_is_served_from_the_database(client: AsyncOpenAI, migrated_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        files = FileRepository(connection)
        made = {"id": "file-own", "filename": "step_metrics.csv", "purpose": "fine-tune-results"}
        assert await files.insert_with_content(**made, content=b"step\n0\n")
        assert not await files.insert_with_content(**made, content=b"another\n")
    assert (await client.files.content("file-own")).text == "step\n0\n"
    assert (await client.files.retrieve("file-own")).bytes == 7
    assert (await client.files.delete("file-own")).deleted
    with pytest.raises(NotFoundError):
        await client.files.content("file-own")


@contextmanager
def api_process(home: Path, database_url: str) -> Generator[tuple[psutil.Process, str]]:
    """The API in a process of its own, so that its memory can be told from ours; and its address."""
    command = [
        *(sys.executable, "-m", "uvicorn", "--factory", "rft.platform.api.app:create_app"),
        *("--port", "0", "--log-level", "info"),
    ]
    log = home / "api.log"
    environment = {
        "DATABASE_URL": database_url,
        "RFT_HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "PYTHONUNBUFFERED": "1",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 60
        while "running on http" not in (said := log.read_text()):
            assert process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.05)
        yield psutil.Process(process.pid), said.split("running on ")[1].split()[0]
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
@pytest.mark.parametrize("purpose", ["fine-tune", "user_data"])
async def test_a_large_upload_does_not_pass_through_memory(migrated_url: str, tmp_path: Path, purpose: str) -> None:
    size = 200 * _MIB
    row = json.dumps({"messages": [{"role": "user", "content": "x" * 100_000}]}).encode() + b"\n"

    async def body() -> AsyncIterator[bytes]:
        yield part("purpose", purpose.encode())
        yield part("file", b"", filename="large.jsonl").removesuffix(b"\r\n")
        for _ in range(size // len(row)):
            yield row
        yield b"\r\n" + END

    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    with api_process(tmp_path, migrated_url) as (process, url):
        api = Api(url=url, key=key, settings=Settings.model_validate({"home": tmp_path}), bells=BellTower())
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
            await upload(client, ROW * 20_000)
        before = peak = process.memory_info().rss

        async def watched() -> AsyncIterator[bytes]:
            nonlocal peak
            async for chunk in body():
                peak = max(peak, process.memory_info().rss)
                yield chunk

        shown = (await send(api, watched())).json()
        peak = max(peak, process.memory_info().rss)
    assert shown["bytes"] == size // len(row) * len(row)
    assert (peak - before) / _MIB < 60
