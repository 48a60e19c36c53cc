"""Tests share a database one after the other, and none of them notices."""

import psycopg
import pytest

from tests.shared.emptied_database import EmptiedDatabase

ADD_KEY = "insert into api_keys (id, sha256, name) values ('key_1', 'x', 'one')"
COUNT = "select count(*) from api_keys"


def test_the_next_one_finds_no_rows_and_the_same_numbers(emptied_database: EmptiedDatabase) -> None:
    with emptied_database.lend() as url, psycopg.connect(url) as connection:
        connection.execute(ADD_KEY)
        first = connection.info.dbname
        oid = database_oid(connection)
    with emptied_database.lend() as url, psycopg.connect(url) as connection:
        assert connection.execute(COUNT).fetchone() == (0,)
        assert database_oid(connection) == oid
        assert connection.info.dbname != first


def test_whoever_stays_connected_is_thrown_out_and_does_not_come_back(emptied_database: EmptiedDatabase) -> None:
    with emptied_database.lend() as url:
        left_behind = psycopg.connect(url, autocommit=True)
    with left_behind, emptied_database.lend():
        with pytest.raises(psycopg.OperationalError):
            left_behind.execute(ADD_KEY)
        with pytest.raises(psycopg.OperationalError, match="does not exist"):
            psycopg.connect(url)


@pytest.mark.parametrize(
    "change",
    [
        "alter table api_keys rename column name to other_name",
        "create table mine (id int)",
        "alter table files alter column purpose drop not null",
        "delete from schema_migrations",
    ],
)
def test_changed_tables_are_not_passed_on(emptied_database: EmptiedDatabase, change: str) -> None:
    with emptied_database.lend() as url, psycopg.connect(url) as connection:
        oid = database_oid(connection)
        connection.execute(change.encode())
    with emptied_database.lend() as url, psycopg.connect(url) as connection:
        assert database_oid(connection) != oid
        assert connection.execute(COUNT).fetchone() == (0,)


def database_oid(connection: psycopg.Connection) -> int:
    """Stays the same when a database is renamed."""
    row = connection.execute("select oid from pg_database where datname = current_database()").fetchone()
    assert row is not None
    return row[0]
