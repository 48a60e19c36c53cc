"""A tool's URL that is wrong by one letter, a token that expires: held before anything is trained on what came of it.

The platform stops a held run whose endpoints were changed and starts it again with the new ones; so do these tests.
"""

import json
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from rft.core.egress_settings import EgressSettings
from rft.core.events import CallsFailed, HoldBegan, RolloutDone, StepDone, TrainEvent
from rft.core.failure import Failure, FailureCode
from rft.core.grade import Grade
from rft.core.messages import Role
from rft.core.spec import HoldRule, RunSecrets, RunSpec, ToolServer
from rft.gateway_service.settings import ServiceSettings
from rft.grader_gateway import app as grader_gateway
from rft.run_directory import layout
from rft.tool_gateway import app as tool_gateway
from tests.e2e.trainer.harness import Broken, Customer, Trainer, events, letter_share, write_run
from tests.shared.running_service import RunningService

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STEPS = 2
GROUPS = 2
GROUP_SIZE = 16


@pytest.fixture(params=["in process", "services"])
def gateways(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The specification's fields for either form of the gateways."""
    if request.param == "in process":
        yield {}
        return
    settings = ServiceSettings(gateway_token=SecretStr("gate-secret"))
    with ExitStack() as stack:
        tools = stack.enter_context(RunningService(tool_gateway.create_app(settings)))
        graders = stack.enter_context(RunningService(grader_gateway.create_app(settings)))
        yield {"tool_gateway_url": tools.url, "grader_gateway_url": graders.url}


def new_run(folder: Path, base_model: Path, url: str, gateways: dict[str, str]) -> Path:
    run_dir = write_run(
        folder / "run", base_model, url, steps=STEPS, group_size=GROUP_SIZE, valid_rows=0,
        egress=EgressSettings(has_adaptive_limits=True), hold=HoldRule(first_trial_s=0.5),
    )  # fmt: skip
    rewrite(run_dir, gateways)
    return run_dir


def rewrite(run_dir: Path, changes: dict[str, Any]) -> None:
    spec = RunSpec.model_validate_json((run_dir / layout.SPEC).read_text()).model_copy(update=changes)
    (run_dir / layout.SPEC).write_text(spec.model_dump_json())


def tool_at(url: str) -> dict[str, Any]:
    return {"tools": (ToolServer(name="search", server_url=url, header_names=("X-Key",)),)}


def key(value: str) -> RunSecrets:
    return RunSecrets(tool_headers={"search": {"X-Key": value}}, gateway_token="gate-secret")


def told(run_dir: Path) -> list[TrainEvent]:
    return [line.event for line in events(run_dir)]


def stop(trainer: Trainer) -> None:
    trainer.process.send_signal(signal.SIGTERM)
    assert trainer.wait() == 0


def expires_after(customer: Customer, grades: int) -> Callable[[str, dict[str, Any]], Broken | None]:
    """The tools' key is another one from that grade on, which is a step's last: a test could not be that quick."""
    heard: Counter[str] = Counter()
    lock = threading.Lock()

    def fault(path: str, body: dict[str, Any]) -> Broken | None:
        del body
        with lock:
            heard[path] += 1
            if heard["/grade"] == grades:
                customer.tool_key = "new"
        return None

    return fault


def last_told(happened: Sequence[TrainEvent]) -> list[RolloutDone]:
    """Each rollout as it was told last: what the platform stores."""
    return list({event.trace_id: event for event in happened if isinstance(event, RolloutDone)}.values())


def assert_whole_and_right(happened: Sequence[TrainEvent]) -> None:
    """Every step has all its grades, each of them for a conversation whose tools answered."""
    steps = [event for event in happened if isinstance(event, StepDone) and event.train is not None]
    assert [step.step for step in steps] == list(range(1, STEPS + 1))
    for step in steps:
        assert step.train is not None
        assert step.train.graded == GROUPS * GROUP_SIZE
        assert all(tool.client_errors_by_status == {} for tool in step.train.tools)
        assert sum(tool.calls for tool in step.train.tools) > 0
    for one in last_told(happened):
        if not isinstance(one.outcome, Grade):
            continue
        said = [message for message in one.messages if message.role is Role.TOOL]
        assert not [message for message in said if "HTTP 40" in message.content]
        assert one.outcome.reward == letter_share(one.messages[-1].content)


def test_a_url_that_is_wrong_by_one_letter_holds_the_run_before_it_trains_on_zeros(
    customer: Customer, base_model: Path, tmp_path: Path, gateways: dict[str, str]
) -> None:
    customer.has_route = lambda path: path in ("/tool", "/grade")
    run_dir = new_run(tmp_path, base_model, customer.url, gateways)
    rewrite(run_dir, tool_at(f"{customer.url}/tol"))
    trainer = Trainer.start(run_dir, key("any"))
    trainer.wait_for("hold_began")
    stop(trainer)
    happened = told(run_dir)
    (began,) = [event for event in happened if isinstance(event, HoldBegan)]
    assert (began.step, began.endpoint) == (1, "tool 'search'")
    assert f"{customer.url}/tol answered 404 Not Found" in began.reason
    assert "check its URL" in began.reason
    assert not [event for event in happened if isinstance(event, StepDone) and event.step > 0]
    shown = [call for event in happened if isinstance(event, CallsFailed) for call in event.calls]
    assert {(call.endpoint, call.status, call.reply) for call in shown} == {("search", 404, '{"detail": "Not Found"}')}
    assert {json.loads(call.request)["name"] for call in shown} == {"search"}
    missed = [one for one in last_told(happened) if isinstance(one.outcome, Failure)]
    assert missed
    assert {one.outcome.code for one in missed if isinstance(one.outcome, Failure)} == {FailureCode.ENDPOINT_NOT_FOUND}

    rewrite(run_dir, tool_at(f"{customer.url}/tool"))
    assert Trainer.start(run_dir, key("any")).wait() == 0
    assert_whole_and_right(told(run_dir)[len(happened) :])


def test_a_token_that_expires_holds_the_run_and_nothing_is_graded_on_it(
    customer: Customer, base_model: Path, tmp_path: Path, gateways: dict[str, str]
) -> None:
    customer.tool_key = "old"
    customer.fault = expires_after(customer, grades=GROUPS * GROUP_SIZE)
    run_dir = new_run(tmp_path, base_model, customer.url, gateways)
    trainer = Trainer.start(run_dir, key("old"))
    trainer.wait_for("hold_began")
    stop(trainer)
    happened = told(run_dir)
    (began,) = [event for event in happened if isinstance(event, HoldBegan)]
    assert (began.step, began.endpoint) == (2, "tool 'search'")
    assert f"{customer.url}/tool answered 401 Unauthorized" in began.reason
    turned_away = {
        one.trace_id for one in customer.received if one.path == "/tool" and one.headers["x-key"] != "new"
    } - {one.trace_id for one in last_told(happened) if isinstance(one.outcome, Grade)}
    assert turned_away
    graded = {one.trace_id for one in customer.received if one.path == "/grade"}
    assert not turned_away & graded, "who was not let in was never judged"
    before = len(customer.received)

    assert Trainer.start(run_dir, key("new")).wait() == 0
    assert {one.headers["x-key"] for one in customer.received[before:] if one.path == "/tool"} == {"new"}
    first = [event for event in happened if not (isinstance(event, RolloutDone) and event.key.step == 2)]
    assert_whole_and_right([*first, *told(run_dir)[len(happened) :]])
