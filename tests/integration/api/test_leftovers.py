"""No bytes are left behind: not by an API that was killed, not by a sender that went away, not by a deleted file."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from openai import AsyncOpenAI

from rft.platform.api.errors import BadRequest, Unavailable
from rft.platform.api.key_repository import create_key
from rft.platform.files.checking import DatasetChecks
from rft.platform.files.incoming import Incoming
from rft.platform.files.orphaned_blob_repository import OrphanedBlobs
from rft.platform.files.receiving import FileField, whole_or_nothing
from rft.platform.files.sweeping import sweep_expired, sweep_orphaned_blobs
from rft.platform.files.uploading import receive_upload
from rft.platform.store.database import Database
from rft.platform.store.file_store import LocalFileStore
from tests.integration.api.api_process import api_process
from tests.integration.api.form import END, FORM, opened
from tests.shared.running_api import ROW, Api, upload
from tests.shared.waiting import until

PIECE = b"x" * (1 << 20)
KEY = "file-of-somebody"


@pytest.fixture
async def database(migrated_url: str) -> AsyncIterator[Database]:
    """A pool on our tables."""
    async with Database(migrated_url, max_connections=4) as opened_pool:
        yield opened_pool


@pytest.fixture
def store(tmp_path: Path) -> LocalFileStore:
    """The store of an API whose home is the test's folder."""
    return LocalFileStore(tmp_path / "files")


async def make_due(database: Database) -> None:
    """As if all patience had passed."""
    async with database.transaction() as connection:
        await connection.execute("update orphaned_blobs set due_at = clock_timestamp()")


async def orphaned(database: Database) -> int:
    """How many bytes somebody has to look after."""
    async with database.transaction() as connection:
        row = await (await connection.execute("select count(*) from orphaned_blobs")).fetchone()
    assert row is not None
    return row[0]


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "files").glob("*"))


@pytest.mark.slow
async def test_the_bytes_of_an_upload_that_a_kill_cut_off_are_swept_at_the_next_start(
    database: Database, migrated_url: str, tmp_path: Path, store: LocalFileStore
) -> None:
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    with api_process(tmp_path, migrated_url) as (process, url):
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
            whole = (await upload(client)).id
        address = urlsplit(url)
        _, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(
            f"POST /v1/files HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {key}\r\n"
            f"content-type: {FORM}\r\ncontent-length: {64 << 20}\r\n\r\n".encode()
        )
        writer.write(opened("user_data") + PIECE * 16)
        await until(lambda: len(kept(tmp_path)) == 2, "the first bytes of the second file")
        process.kill()
        process.wait()
        writer.close()
    assert len(kept(tmp_path)) == 2
    assert await sweep_orphaned_blobs(database, store) == 0, "another process might still be receiving it"
    assert len(kept(tmp_path)) == 2
    await make_due(database)
    with api_process(tmp_path, migrated_url):
        await until(lambda: kept(tmp_path) == [whole], "the sweep")
    assert await orphaned(database) == 0


async def test_an_upload_leaves_nothing_to_look_after(client: AsyncOpenAI, database: Database) -> None:
    await upload(client)
    assert await orphaned(database) == 0


async def test_a_refused_upload_leaves_nothing_to_look_after(database: Database, store: LocalFileStore) -> None:
    with pytest.raises(BadRequest):
        await receive(database, store, opened("user_data") + PIECE)
    assert await orphaned(database) == 0


async def test_a_deleted_files_bytes_go_even_if_the_api_dies_before_it_deletes_them(
    client: AsyncOpenAI, api: Api, database: Database
) -> None:
    file = await upload(client)
    await client.files.delete(file.id)
    bytes_again = api.settings.files_dir / file.id  # As if the process had ended right after the commit.
    bytes_again.write_bytes(ROW)
    assert await sweep_orphaned_blobs(database, LocalFileStore(api.settings.files_dir)) == 1
    assert not bytes_again.exists()
    assert await orphaned(database) == 0


async def test_bytes_that_cannot_be_deleted_keep_no_others_and_are_tried_again(
    client: AsyncOpenAI, api: Api, database: Database
) -> None:
    store = LocalFileStore(api.settings.files_dir)
    stuck, expired, other = [await upload(client) for _ in range(3)]
    blocked = api.settings.files_dir / stuck.id
    blocked.unlink()
    (blocked / "in-the-way").mkdir(parents=True)
    assert (await client.files.delete(stuck.id)).deleted
    blocked_too = api.settings.files_dir / expired.id
    blocked_too.unlink()
    (blocked_too / "in-the-way").mkdir(parents=True)
    async with database.transaction() as connection:
        await connection.execute(
            "update files set expires_at = clock_timestamp() - case id when %s then interval '2 s'"
            " else interval '1 s' end",
            (expired.id,),
        )
    assert await sweep_expired(database, store) == 2
    assert kept(api.settings.files_dir.parent) == sorted([stuck.id, expired.id])
    await make_due(database)
    assert await sweep_orphaned_blobs(database, store) == 2
    assert await sweep_orphaned_blobs(database, store) == 0, "not again at once"
    for path in (blocked, blocked_too):
        (path / "in-the-way").rmdir()
        path.rmdir()
        path.write_bytes(ROW)
    await make_due(database)
    assert await sweep_orphaned_blobs(database, store) == 2
    assert (kept(api.settings.files_dir.parent), await orphaned(database)) == ([], 0)
    assert other.id not in [file.id async for file in client.files.list()]


async def test_half_written_bytes_are_deleted_with_the_whole_ones(store: LocalFileStore, tmp_path: Path) -> None:
    for name in ("file-a", "file-a#1", "file-a#2", "file-ab", "file-ab#1"):
        (tmp_path / "files" / name).write_bytes(b"x")
    await store.delete("file-a")
    assert kept(tmp_path) == ["file-ab", "file-ab#1"]


async def test_an_upload_that_was_given_up_is_not_kept(
    database: Database, store: LocalFileStore, tmp_path: Path
) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield opened("user_data") + ROW
        await make_due(database)
        assert await sweep_orphaned_blobs(database, store) == 1
        yield b"\r\n" + END

    with pytest.raises(Unavailable):
        await receive_upload(database, store, DatasetChecks(asyncio.Semaphore(1)), content_type=FORM, body=body())
    assert kept(tmp_path) == []
    async with database.transaction() as connection:
        assert await (await connection.execute("select 1 from files")).fetchone() is None


@pytest.mark.parametrize("is_committed", [True, False])
async def test_bytes_stay_exactly_where_the_row_that_keeps_them_is_committed(
    database: Database, store: LocalFileStore, tmp_path: Path, *, is_committed: bool
) -> None:
    incoming = Incoming(database, store, KEY)

    async def body() -> AsyncIterator[bytes]:
        yield ROW

    async def be_cut_off() -> None:
        async with whole_or_nothing(incoming, FileField("file", "file", len(ROW))):
            await incoming.begin()
            await incoming.store_bytes(incoming.watched(body()))
            async with database.transaction() as connection:
                await incoming.keep(connection)
                if not is_committed:
                    raise asyncio.CancelledError
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await be_cut_off()
    assert kept(tmp_path) == ([KEY] if is_committed else [])
    assert await orphaned(database) == 0


async def test_a_silent_sender_is_given_up(database: Database, store: LocalFileStore) -> None:
    gone = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"some"
        await gone.wait()

    incoming = Incoming(database, store, KEY, silence_s=0.05)
    chunks = incoming.watched(body())
    assert await anext(chunks) == b"some"
    with pytest.raises(BadRequest, match="broken off"):
        await anext(chunks)


async def test_two_sweepers_do_not_sweep_the_same(database: Database, store: LocalFileStore) -> None:
    async with database.transaction() as connection:
        for number in range(20):
            await OrphanedBlobs(connection).add(f"{KEY}-{number}")
    assert sum(await asyncio.gather(*(sweep_orphaned_blobs(database, store) for _ in range(4)))) == 20


async def receive(database: Database, store: LocalFileStore, sent: bytes) -> None:
    """An upload of these bytes."""

    async def body() -> AsyncIterator[bytes]:
        yield sent

    await receive_upload(database, store, DatasetChecks(asyncio.Semaphore(1)), content_type=FORM, body=body())
