"""The servers that other integration tests rely on."""

import psycopg
from redis import Redis

from rft.platform.embedded.valkey import EmbeddedValkey


def test_database_is_empty_and_utf8(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("create table traces (id text)")
        row = connection.execute("select current_setting('server_encoding'), upper('é')").fetchone()
    assert row == ("UTF8", "É")


def test_next_test_gets_another_database(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        row = connection.execute("select count(*) from pg_tables where schemaname = 'public'").fetchone()
    assert row == (0,)


def test_broker_keeps_what_it_is_told(valkey: EmbeddedValkey, broker_url: str) -> None:
    assert broker_url.startswith("redis+socket:///")
    with Redis(unix_socket_path=str(valkey.socket), decode_responses=True) as client:
        client.set("a", "b")
        assert client.get("a") == "b"
        assert client.info("persistence")["aof_enabled"] == 1  # pyright: ignore[reportIndexIssue]
