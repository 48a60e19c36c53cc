"""A customer's server that keeps state by `trace_id` and is never told of anything: an oracle's reward stays 1.0.

The whole product with a real trainer, whose sampler knows the right calls. Whatever is paused or killed, and whenever,
no conversation meets what another one did.
"""

import json
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from rft.gateway_service.settings import ServiceSettings
from rft.grader_gateway import app as grader_gateway
from rft.run_directory import layout
from rft.testing.samplers_oracle import PLANS, OraclePlanLine
from rft.testing.stateful import TOOLS, BoxOffice, order_of_seat, perfect_plan
from rft.tool_gateway import app as tool_gateway
from tests.e2e.platform.conftest import SETTINGS
from tests.e2e.platform.customer import CustomerServer, make_model, steps_of, wait_for
from tests.e2e.platform.test_crash_recovery import (
    kill_trainer,
    kill_worker_and_children,
    runs_started,
    trainers_of,
)
from tests.shared.homes import home_folder
from tests.shared.running_platform import RunningPlatform, until
from tests.shared.running_service import RunningService

log = logging.getLogger(__name__)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
TRAIN, VALID = ([order_of_seat(first + number) for number in range(count)] for first, count in ((0, 8), (100, 2)))
STEPS = 2
CALL_S = 0.2
"""How long every call takes, so that there is a middle of a conversation to strike in."""
FREE_GRADES = 24
"""Of forty: with no more than these the job cannot come to its end before something has happened to it."""


class Office(CustomerServer):
    """`/tool` and `/grade` of one box office. All but the first grades wait until it is released."""

    def __init__(self) -> None:
        self.office = BoxOffice()
        self.is_waited_for = False
        self._free, self._lock = iter(range(FREE_GRADES)), threading.Lock()
        super().__init__()
        self.delay_s = CALL_S

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        """Status and body of a reply."""
        if path == "/tool":
            return 200, json.dumps({"output": self.office.call(body)}).encode()
        with self._lock:
            is_free = next(self._free, None) is not None
        if not is_free and not self.released.is_set():
            self.is_waited_for = True
            self.released.wait(300)
        return 200, json.dumps({"score": self.office.grade(body)}).encode()


@pytest.fixture
def server() -> Iterator[Office]:
    """The customer's box office."""
    office = Office()
    yield office
    office.close()


@pytest.fixture(scope="module")
def platform(request: pytest.FixtureRequest) -> Iterator[RunningPlatform]:
    """`rft up` with an oracle for a policy; tools and grader are called by the trainer, or by gateway services."""
    with home_folder() as folder:
        model = make_model(folder / "tiny")
        lines = (OraclePlanLine(row=row, plan=perfect_plan(row)).model_dump_json() for row in (*TRAIN, *VALID))
        (model / PLANS).write_text("\n".join(lines))
        settings = SETTINGS | {
            "RFT_ENGINE": "rft.testing.samplers_oracle:oracle_engine",
            "RFT_MAX_IMPORTANCE_GAP": "1000",
            "RFT_BASE_MODELS": json.dumps({"tiny": str(model)}),
        }
        apps = [tool_gateway.create_app, grader_gateway.create_app] if request.param == "services" else []
        services = [RunningService(create_app(ServiceSettings())) for create_app in apps]
        for name, service in zip(("RFT_TOOL_GATEWAY_URL", "RFT_GRADER_GATEWAY_URL"), services, strict=False):
            service.__enter__()
            settings[name] = service.url
        running = RunningPlatform.start(folder / "home", settings)
        try:
            yield running
        finally:
            running.end()
            for service in services:
                service.stop()


def start(client: OpenAI, server: CustomerServer) -> str:
    files = [
        client.files.create(file=(name, "\n".join(map(json.dumps, rows)).encode()), purpose="fine-tune").id
        for name, rows in (("train.jsonl", TRAIN), ("valid.jsonl", VALID))
    ]
    reinforcement: dict[str, Any] = {
        "tools": [{"name": name, "server_url": f"{server.url}/tool"} for name in TOOLS],
        "grader": {"type": "endpoint", "name": "till", "url": f"{server.url}/grade"},
        "max_episode_steps": 5,
        "budgets": {"max_tokens": 512},
        "hyperparameters": {"n_epochs": 1, "batch_size": 4, "compute_multiplier": 0.5, "eval_interval": 1},
    }
    create: Any = client.fine_tuning.jobs.create
    method = {"type": "reinforcement", "reinforcement": reinforcement}
    return create(model="tiny", method=method, training_file=files[0], validation_file=files[1], seed=7).id


@dataclass(slots=True)
class Scene:
    """A running job, and the moment to strike: somewhere within the conversations of a round."""

    client: OpenAI
    platform: RunningPlatform
    server: Office
    job_id: str
    chance: random.Random

    @property
    def events(self) -> Path:
        return self.platform.home / "runs" / self.job_id / layout.EVENTS

    def at_some_moment(self) -> None:
        heard = self.server.office.calls
        until(lambda: self.server.office.calls > heard or self.server.is_waited_for, "another call")
        time.sleep(self.chance.uniform(0.0, 4 * CALL_S))

    def is_taken_up_again(self, launches: int) -> None:
        until(lambda: runs_started(self.events) > launches, "the resumed run")


def pause_and_resume(scene: Scene) -> None:
    jobs = scene.client.fine_tuning.jobs
    jobs.pause(scene.job_id)
    wait_for(scene.client, scene.job_id, ("paused",))
    jobs.resume(scene.job_id)


def kill_of(kill: Callable[[RunningPlatform, str], None]) -> Callable[[Scene], None]:
    def strike(scene: Scene) -> None:
        before, launches = trainers_of(scene.platform, scene.job_id), runs_started(scene.events)
        kill(scene.platform, scene.job_id)
        until(lambda: bool(set(trainers_of(scene.platform, scene.job_id)) - set(before)), "another trainer")
        scene.is_taken_up_again(launches)

    return strike


def kill_postgres(scene: Scene) -> None:
    scene.platform.kill_child("postgres")
    until(scene.platform.is_healthy, "the database")


DISTURBANCES: dict[str, Callable[[Scene], None]] = {
    "pause": pause_and_resume,
    "trainer": kill_of(kill_trainer),
    "worker": kill_of(kill_worker_and_children),
    "postgres": kill_postgres,
}


@pytest.mark.parametrize("platform", ["libraries"], indirect=True)
@pytest.mark.parametrize(
    "disturbances",
    [
        ("pause", "postgres"),
        # The same kills are those of the test below; test_crash_recovery.py has them where libraries make the calls.
        pytest.param(("trainer", "worker"), marks=pytest.mark.thorough),
    ],
    ids="-".join,
)
def test_an_oracle_is_never_paid_for_what_another_conversation_did(
    client: OpenAI, server: Office, platform: RunningPlatform, disturbances: tuple[str, str]
) -> None:
    an_oracle_earns_one(client, server, platform, disturbances)


@pytest.mark.parametrize("platform", ["services"], indirect=True)
def test_nor_where_gateway_services_make_the_calls(client: OpenAI, server: Office, platform: RunningPlatform) -> None:
    an_oracle_earns_one(client, server, platform, ("worker", "trainer"))


def an_oracle_earns_one(
    client: OpenAI, server: Office, platform: RunningPlatform, disturbances: tuple[str, str]
) -> None:
    """Both within one job, each at some moment."""
    seed = int.from_bytes(os.urandom(4))
    scene = Scene(client, platform, server, start(client, server), random.Random(seed))
    until(lambda: server.office.calls > 0, "the first call")
    for disturbance in disturbances:
        scene.at_some_moment()
        DISTURBANCES[disturbance](scene)
    server.released.set()
    job = wait_for(client, scene.job_id)
    assert job.status == "succeeded", job.error
    rounds = [one for step in steps_of(client, scene.job_id) for one in (step["train"], step["valid"]) if one]
    rewards = [one["reward_mean"] for one in rounds]
    log.info("%s, seed %d: rewards %s, %d launches", disturbances, seed, rewards, runs_started(scene.events))
    assert rewards == [1.0] * len(rounds), f"seed {seed}"
    assert [one["excluded"] for one in rounds] == [0] * len(rounds)
    every_id_answers(client, scene)


def every_id_answers(client: OpenAI, scene: Scene) -> None:
    """Also those whose conversations count nowhere; these name the ones that do."""
    page: Any = client.get(f"/fine_tuning/jobs/{scene.job_id}/rollouts?limit=1000", cast_to=object)
    listed = {one["id"] for one in page["data"]}
    assert len(listed) == STEPS * 16 + (STEPS + 1) * 2 + 2, "the best checkpoint is measured once more"
    heard = set(scene.server.office.worlds)
    assert listed <= heard
    for trace_id in heard:
        found: Any = client.get(f"/fine_tuning/jobs/{scene.job_id}/rollouts/{trace_id}", cast_to=object)
        if trace_id in listed:
            assert (found["status"], found["superseded_by"]) == ("ended", None)
        else:
            assert found["status"] == "abandoned"
            assert found["superseded_by"] in listed
