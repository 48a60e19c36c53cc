"""The migration runner against a real server."""

import asyncio

import psycopg
import pytest

from rft.platform.store.migrations import Migration, MigrationRefused, migrate, shipped

FIRST = Migration("0001_first.sql", "create table one (a int); insert into one values (1);")
SECOND = Migration("0002_second.sql", "alter table one add column b int; -- 100% sure")


async def columns(url: str, table: str) -> list[str]:
    """Names of a table's columns."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        cursor = await connection.execute(
            "select column_name from information_schema.columns where table_name = %s order by ordinal_position",
            (table,),
        )
        return [name for (name,) in await cursor.fetchall()]


def test_every_number_is_given_once() -> None:
    numbers = [migration.name.partition("_")[0] for migration in shipped()]
    assert len(numbers) == len(set(numbers))


async def test_everything_shipped_is_applied_once(database_url: str) -> None:
    names = [migration.name for migration in shipped()]
    assert names[0] == "0001_init.sql"
    assert await migrate(database_url) == names
    assert await migrate(database_url) == []
    assert "model_deleted_at" in await columns(database_url, "jobs")


async def test_later_files_are_added(database_url: str) -> None:
    assert await migrate(database_url, [FIRST]) == ["0001_first.sql"]
    assert await migrate(database_url, [FIRST, SECOND]) == ["0002_second.sql"]
    assert await columns(database_url, "one") == ["a", "b"]


async def test_many_at_once_apply_each_file_once(database_url: str) -> None:
    applied = await asyncio.gather(*(migrate(database_url, [FIRST, SECOND]) for _ in range(6)))
    assert sorted(map(len, applied)) == [0, 0, 0, 0, 0, 2]


async def test_an_edited_file_is_refused(database_url: str) -> None:
    await migrate(database_url, [FIRST])
    edited = Migration(FIRST.name, FIRST.sql + " ")
    with pytest.raises(MigrationRefused, match="edited"):
        await migrate(database_url, [edited, SECOND])
    assert await columns(database_url, "one") == ["a"]


async def test_a_newer_database_is_refused(database_url: str) -> None:
    await migrate(database_url, [FIRST, SECOND])
    with pytest.raises(MigrationRefused, match="newer version"):
        await migrate(database_url, [FIRST])


async def test_a_broken_file_leaves_nothing_of_itself(database_url: str) -> None:
    broken = Migration("0002_broken.sql", "alter table one add column b int; select 1/0;")
    with pytest.raises(MigrationRefused, match="0002_broken"):
        await migrate(database_url, [FIRST, broken])
    assert await columns(database_url, "one") == ["a"]
    assert await migrate(database_url, [FIRST, SECOND]) == ["0002_second.sql"]
