"""Uploads as they come over the wire: streamed to the store, read along by the validator, bounded in memory."""

import io
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import psycopg
import pytest
from openai import APIStatusError, AsyncOpenAI, NotFoundError

from rft.platform.files.sweeping import sweep_expired
from rft.platform.store.database import Database
from rft.platform.store.file_contents import insert_with_content
from rft.platform.store.file_store import LocalFileStore
from tests.integration.api.form import END, FORM, part
from tests.shared.running_api import ROW, Api, upload


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
        "stopped_at_line": None,
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


@pytest.mark.parametrize("names", [("anchor", "seconds"), ("seconds", "anchor")])
async def test_an_expiry_may_come_on_both_sides_of_the_file(api: Api, names: tuple[str, str]) -> None:
    halves = {"anchor": b"created_at", "seconds": b"3600"}
    before, after = (part(f"expires_after[{name}]", halves[name]) for name in names)
    body = part("purpose", b"evals") + before + part("file", ROW, filename="a") + after + END
    shown = (await send(api, body)).json()
    assert shown["expires_at"] == shown["created_at"] + 3600


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
        (part("purpose", b"evals") * 33 + part("file", ROW, filename="a") + END, None, "invalid_form"),
        (
            part("purpose", b"evals") + part("expires_after[seconds]", b"60") + part("file", ROW, filename="a") + END,
            "expires_after[seconds]",
            "invalid_value",
        ),
        (
            part("purpose", b"evals") + part("expires_after[seconds]", b"3600") + part("file", ROW, filename="a") + END,
            "expires_after[anchor]",
            "missing_required_parameter",
        ),
        (
            part("purpose", b"evals")
            + part("expires_after[anchor]", b"created_at")
            + part("file", ROW, filename="a")
            + END,
            "expires_after[seconds]",
            "missing_required_parameter",
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
        made = {"id": "file-own", "filename": "step_metrics.csv", "purpose": "fine-tune-results"}
        assert await insert_with_content(connection, **made, content=b"step\n0\n")
        assert not await insert_with_content(connection, **made, content=b"another\n")
    assert (await client.files.content("file-own")).text == "step\n0\n"
    assert (await client.files.retrieve("file-own")).bytes == 7
    assert (await client.files.delete("file-own")).deleted
    with pytest.raises(NotFoundError):
        await client.files.content("file-own")


@pytest.mark.parametrize("lines", [1_500, 2_000_000])
async def test_a_file_of_bad_lines_is_not_read_on(client: AsyncOpenAI, lines: int) -> None:
    file: Any = await upload(client, b"{}\n" * lines)
    assert (file.dataset["problems"], file.dataset["stopped_at_line"]) == (1000, 1001)
    assert file.status_details.startswith("Jobs will refuse this file; it has 1,000 problems, not read from line 1,001")
    first: Any = await client.get(f"/files/{file.id}/problems?limit=1000", cast_to=object)
    assert [problem["line"] for problem in first["data"]] == list(range(1, 1001))
    assert first["has_more"]
    last: Any = await client.get(f"/files/{file.id}/problems?after={first['last_id']}", cast_to=object)
    assert (last["has_more"], [problem["line"] for problem in last["data"]]) == (False, [1001])
    assert last["data"][0]["reason"] == "not read, and neither is what follows: 1,000 problems come before it"


async def test_every_bad_line_can_be_listed(client: AsyncOpenAI, api: Api) -> None:
    lines = [ROW.strip() if line % 3 == 0 else b"{oops" for line in range(1, 91)]
    file_id = (await upload(client, b"\n".join(lines))).id
    path, told, after = f"/files/{file_id}/problems", list[Any](), ""
    while True:
        page: Any = await client.get(f"{path}?limit=25{after}", cast_to=object)
        told += page["data"]
        if not page["has_more"]:
            break
        after = f"&after={page['last_id']}"
    assert [problem["line"] for problem in told] == [line for line in range(1, 91) if line % 3]
    assert {problem["reason"][:8] for problem in told} == {"not JSON"}
    assert told[0] == {"id": "line-1", "object": "file.problem", "line": 1, "path": "", "reason": told[0]["reason"]}
    good: Any = await client.get(f"/files/{(await upload(client)).id}/problems", cast_to=object)
    assert (good["data"], good["has_more"]) == ([], False)
    notes = await client.files.create(file=("notes.txt", b"{oops"), purpose="user_data")
    for bad, param in ((f"{path}?after=line-x", "after"), (f"/files/{notes.id}/problems", "id")):
        with pytest.raises(APIStatusError) as raised:
            await client.get(bad, cast_to=object)
        assert (raised.value.status_code, raised.value.param) == (400, param)
    with pytest.raises(NotFoundError):
        await client.get("/files/file-none/problems", cast_to=object)
