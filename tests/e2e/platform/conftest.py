"""The whole product for a module of tests: `rft up`, a customer's server, the official SDK."""

import json
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from openai import OpenAI

from tests.e2e.platform.customer import CustomerServer, make_model
from tests.shared.homes import home_folder
from tests.shared.running_platform import RunningPlatform

SETTINGS = {
    "RFT_ENGINE": "rft.testing.samplers:fake_engine",
    # Its log-probabilities are made up.
    "RFT_MAX_IMPORTANCE_GAP": "1000",
    # A busy machine is slow. Where the endpoint itself is to be too slow, the module says how long it may take.
    "RFT_GRADER_TIMEOUT_S": "60",
    "RFT_TOOL_TIMEOUT_S": "60",
    # No stall of a busy machine costs a worker its job, and nobody who waits for the end of a lease is in time.
    "RFT_LEASE_TTL_S": "600",
    "RFT_MAX_RETRIES": "1",
    "RFT_RETRY_FIRST_WAIT_S": "0.05",
    # Holding has tests of its own; in the others a failure is to be seen as it is.
    "RFT_HOLD_EXCLUDED_SHARE": "1",
    "RFT_HAS_ADAPTIVE_LIMITS": "false",
    "RFT_TORCH_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
}


class _Running:
    """The platform that runs now: modules with the same settings, one after the other, use the same one."""

    def __init__(self) -> None:
        self._settings: dict[str, str] = {}
        self._platform: RunningPlatform | None = None
        self._folder = ExitStack()

    def with_settings(self, settings: dict[str, str]) -> RunningPlatform:
        if self._platform is None or settings != self._settings:
            self.end()
            folder = self._folder.enter_context(home_folder())
            model = make_model(folder / "tiny")
            self._platform = RunningPlatform.start(
                folder / "home", settings | {"RFT_BASE_MODELS": json.dumps({"tiny": str(model)})}
            )
            self._settings = settings
        return self._platform

    def end(self) -> None:
        platform, self._platform = self._platform, None
        with self._folder:
            if platform is not None:
                platform.end()


RUNNING = _Running()


@pytest.fixture(scope="module")
def platform(request: pytest.FixtureRequest) -> RunningPlatform:
    """`rft up` with a scripted sampler, real trainer, few retries. One base model: `tiny`.

    A module changes settings with `CHANGED_SETTINGS`. What earlier modules did is there.
    """
    changed: dict[str, str] = getattr(request.module, "CHANGED_SETTINGS", {})
    return RUNNING.with_settings(SETTINGS | changed)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Nobody else's tests run beside one that stands idle."""
    try:
        return (yield)
    finally:
        if nextitem is None or not nextitem.path.is_relative_to(Path(__file__).parent):
            RUNNING.end()


def pytest_sessionfinish() -> None:
    """Also where a session was broken off."""
    RUNNING.end()


@pytest.fixture(scope="module")
def client(platform: RunningPlatform) -> Iterator[OpenAI]:
    """The official SDK on it."""
    with platform.client() as sdk:
        yield sdk


@pytest.fixture
def server() -> Iterator[CustomerServer]:
    """The customer's tools and grader."""
    customer = CustomerServer()
    yield customer
    customer.close()
