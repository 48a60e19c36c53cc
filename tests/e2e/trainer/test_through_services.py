"""A run whose calls are made by gateway services: as if it made them itself."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from rft.core.egress_settings import EgressSettings
from rft.core.events import AttemptsMade, HoldBegan, HoldEnded, RunEnded, StepDone
from rft.core.failure import Stage
from rft.core.graders import EndpointGrader
from rft.core.secret_urls import REDACTED
from rft.core.spec import HoldRule, RunSecrets, ToolServer
from rft.gateway_service.settings import ServiceSettings
from rft.grader_gateway import app as grader_gateway
from rft.tool_gateway import app as tool_gateway
from tests.e2e.trainer.harness import Customer, Trainer, events, write_run
from tests.e2e.trainer.test_hold import FAST_RETRY, Outage
from tests.shared.running_service import RunningService

pytestmark = pytest.mark.timeout(900)

SECRETS = RunSecrets(
    tool_headers={"search": {"X-Key": "tool-secret"}},
    grader_headers={"X-Key": "grader-secret"},
    gateway_token="gate-secret",
)


PLACES = {"/tool": "tool", "/host": "host", "/grade": "grader"}


def with_urls(customer: Customer) -> RunSecrets:
    urls = {name: f"{customer.url}{path}?key={name}-secret" for path, name in PLACES.items()}
    return SECRETS.model_copy(
        update={
            "tool_urls": {"search": urls["tool"]},
            "callback_urls": {"search": urls["host"]},
            "grader_url": urls["grader"],
        }
    )


@dataclass(frozen=True, slots=True)
class Services:
    """Where they listen, as a run is told."""

    tool_gateway_url: str
    grader_gateway_url: str


@pytest.fixture
def services() -> Iterator[Services]:
    settings = ServiceSettings(gateway_token=SecretStr("gate-secret"))
    tools, graders = (
        RunningService(tool_gateway.create_app(settings)),
        RunningService(grader_gateway.create_app(settings)),
    )
    with tools, graders:
        yield Services(tools.url, graders.url)


@pytest.mark.slow
@pytest.mark.parametrize("has_services", [True, False], ids=["services", "in process"])
def test_a_run_reaches_its_end_and_its_secrets_stay_secret(
    customer: Customer, base_model: Path, tmp_path: Path, services: Services, has_services: bool
) -> None:
    """Those of URLs, too: the specification has them redacted, and who is called gets them whole."""
    redacted, secrets = f"?key={REDACTED}", with_urls(customer)
    search = ToolServer(
        name="search", server_url=f"{customer.url}/tool{redacted}", callback_url=f"{customer.url}/host{redacted}"
    )
    urls: dict[str, Any] = (
        {"tool_gateway_url": services.tool_gateway_url, "grader_gateway_url": services.grader_gateway_url}
        if has_services
        else {}
    )
    run_dir = write_run(
        tmp_path / "run", base_model, customer.url, steps=2, valid_rows=0, tools=(search,),
        grader=EndpointGrader(name="letters", url=f"{customer.url}/grade{redacted}"), **urls,
    )  # fmt: skip
    assert Trainer.start(run_dir, secrets).wait() == 0
    told = [line.event for line in events(run_dir)]
    assert isinstance(told[-1], RunEnded)
    assert told[-1].outcome == "succeeded"
    trained = [event.train for event in told if isinstance(event, StepDone) and event.train is not None]
    assert [(train.rollouts, train.graded) for train in trained] == [(8, 8), (8, 8)]

    paths = Counter(received.path for received in customer.received)
    assert paths["/grade"] == 16
    hosted = Counter(received.body["type"] for received in customer.received if received.path == "/host")
    assert hosted == {"rollout.started": 16, "rollout.ended": 16}
    attempts = [one for event in told if isinstance(event, AttemptsMade) for one in event.attempts]
    assert Counter(one.stage for one in attempts)[Stage.GRADER] == 16
    assert len({(one.trace_id, one.call_id, one.attempt) for one in attempts}) == len(attempts)
    keys = Counter(one.headers.get("x-key") for one in customer.received)
    assert keys == {"grader-secret": 16, "tool-secret": len(customer.received) - 16}
    queries = {(one.path, one.query) for one in customer.received}
    assert queries == {(path, f"key={name}-secret") for path, name in PLACES.items()}
    assert b"secret" not in b"".join(path.read_bytes() for path in run_dir.rglob("*") if path.is_file())


@pytest.mark.slow
def test_an_outage_behind_a_service_holds_the_run_and_excludes_nothing(
    customer: Customer, base_model: Path, tmp_path: Path, services: Services
) -> None:
    outage = Outage(customer, from_call=5)
    run_dir = write_run(
        tmp_path / "run", base_model, customer.url, steps=1, group_size=16, valid_rows=0,
        retry=FAST_RETRY,
        egress=EgressSettings(has_adaptive_limits=True), hold=HoldRule(),
        tool_gateway_url=services.tool_gateway_url, grader_gateway_url=services.grader_gateway_url,
    )  # fmt: skip
    trainer = Trainer.start(run_dir, SECRETS)
    trainer.wait_for("hold_began")
    outage.is_repaired.set()
    assert trainer.wait() == 0
    told = [line.event for line in events(run_dir)]
    began, ended = [event for event in told if isinstance(event, HoldBegan | HoldEnded)]
    assert (began.endpoint, ended.endpoint) == ("tool 'search'", "tool 'search'")
    [train] = [event.train for event in told if isinstance(event, StepDone) and event.train is not None]
    assert (train.graded, train.excluded, train.replaced) == (32, 0, 0)
