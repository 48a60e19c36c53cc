"""The whole product for a module of tests: `rft up`, a customer's server, the official SDK."""

import json
from collections.abc import Iterator

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


@pytest.fixture(scope="module")
def platform(request: pytest.FixtureRequest) -> Iterator[RunningPlatform]:
    """`rft up` with a scripted sampler, real trainer, few retries. One base model: `tiny`.

    A module changes settings with `CHANGED_SETTINGS`.
    """
    changed: dict[str, str] = getattr(request.module, "CHANGED_SETTINGS", {})
    with home_folder() as folder:
        model = make_model(folder / "tiny")
        running = RunningPlatform.start(
            folder / "home", SETTINGS | changed | {"RFT_BASE_MODELS": json.dumps({"tiny": str(model)})}
        )
        try:
            yield running
        finally:
            running.end()


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
