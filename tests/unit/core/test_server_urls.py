"""What is wrong with a server's URL is told before anything is asked of it, and never with the URL."""

import pytest

from rft.core.server_urls import broker_url_problem, database_url_problem


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://rft:p%40ss%23word@db.internal:5432/rft",
        "postgres:///rft?host=/run/postgresql&user=a@b",
        "postgresql://a:1,b:2/rft?target_session_attrs=read-write",
        "host=/run/postgresql dbname=rft",
    ],
)
def test_databases(url: str) -> None:
    assert database_url_problem(url) is None


@pytest.mark.parametrize(
    "url",
    ["redis://:key@10.0.0.2:6379/0", "rediss://x", "redis+socket:///run/valkey.sock", "amqp://u:p@h//", "amqps://h"],
)
def test_brokers(url: str) -> None:
    assert broker_url_problem(url) is None


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "begin with"),
        ("hidden", "begin with"),
        ("mysql://hidden", "begin with"),
        ("postgresql+psycopg://u:hidden@h/d", "begin with"),
        ("postgresql://u:hid@den@h/d", "percent-encoded"),
        ("postgresql://u:hid/den@h/d", "percent-encoded"),
        ("postgresql://u:hid#den@h/d", "percent-encoded"),
    ],
)
def test_what_is_none(url: str, problem: str) -> None:
    told = database_url_problem(url)
    assert told is not None
    assert problem in told
    assert "hid" not in told


def test_a_broker_takes_the_last_at_for_the_end_of_its_password() -> None:
    assert broker_url_problem("redis://:hid@den@10.0.0.2:6379/0") is None
    assert broker_url_problem("redis://:hid/den@10.0.0.2:6379/0") is not None
    assert broker_url_problem("redis://:hid#den@10.0.0.2:6379/0") is not None
