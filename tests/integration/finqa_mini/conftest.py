"""The example server, healthy and broken."""

from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.integration.finqa_mini.running import RunningServer, load, start


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A healthy server."""
    running = start(tmp_path_factory.mktemp("server"))
    yield running
    running.process.terminate()
    running.process.wait(20)


@pytest.fixture(scope="module")
def broken_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that is broken for three rollouts of ten."""
    running = start(tmp_path_factory.mktemp("broken"), "--faults", "0.3")
    yield running
    running.process.terminate()
    running.process.wait(20)


@pytest.fixture(scope="session")
def corpus() -> ModuleType:
    """The example's `corpus.py`."""
    return load("corpus")


@pytest.fixture(scope="session")
def faults() -> ModuleType:
    """The example's `faults.py`."""
    return load("faults")
