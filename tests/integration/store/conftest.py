"""Fixtures of the store's tests."""

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def refused_port() -> Iterator[int]:
    """A port where nobody listens, and nobody can as long as the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
