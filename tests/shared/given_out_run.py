"""A run whose rollouts are given out to worker processes: the trainer's side of it, and the workers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from secrets import token_bytes
from typing import Any

from rft.chat.model_folder import read_model_folder
from rft.chat.opening import OpenedChat, open_chat, saved_chat
from rft.core.attempt import Attempt
from rft.core.chat_spec import JobChat
from rft.core.dataset import DatasetRow, parse_row
from rft.core.egress_settings import EgressSettings
from rft.core.events import Notice, RolloutBegan, StillWaiting
from rft.core.graders import EndpointGrader
from rft.core.hyperparameters import ResolvedHyperparameters
from rft.core.ids import public_id
from rft.core.messages import ToolSchema
from rft.core.rollout import Rollout
from rft.core.spec import Engine, RolloutWorkersSpec, RunSecrets, RunSpec, ToolServer, VllmSpec
from rft.engines.vllm.adapters import AdapterFolder
from rft.engines.vllm.engine import VllmEngine
from rft.engines.vllm.options import EngineOptions, ServerAddress
from rft.platform.lifecycle.job_lease import take
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.records import NewJob
from rft.platform.lifecycle.repository import LifecycleRepository
from rft.platform.store.database import Database
from rft.rollouts.connections import ConnectionOptions, open_connections
from rft.rollouts.executor import StepRollouts, run_step
from rft.rollouts.group import StepRow
from rft.rollouts.setup import RolloutSetup
from rft.rollouts.wiring import rollout_setup
from rft.testing.vllm_server import ScriptedVllm
from rft.vllm_server.release import VERSION
from tests.shared.waiting import until

SEARCH = ToolSchema(name="search", parameters={"type": "object"})
GATEWAY_TOKEN, TOOL_KEY, VLLM_KEY = "gate-secret-1", "tool-secret-2", "engine-secret-3"
CONTEXT_TOKENS = 2048
_TOOL_RESPONSE = 5
"""The token that begins a tool's result."""


class TalkingVllm(ScriptedVllm):
    """Calls `search` so many times, then answers. Log-probabilities follow from model, seed and turn."""

    def __init__(
        self, model: Path, *, calls: int = 2, latency_s: float = 0.0, max_model_len: int = CONTEXT_TOKENS
    ) -> None:
        super().__init__(
            version=VERSION, root=str(model), max_model_len=max_model_len, api_key=VLLM_KEY, latency_s=latency_s
        )
        self._calls = calls
        tokenizer = chat_of(model).chat_format.tokenizer
        end = chat_of(model).chat_format.stop_token_ids[:1]
        call = '<tool_call>\n{"name": "search", "arguments": {"query": "margin"}}\n</tool_call>'
        self._call_ids, self._answer_ids = ([*tokenizer.encode(text), *end] for text in (call, "The answer is 7."))

    def tokens_of(self, body: dict[str, Any]) -> tuple[list[int], list[float]]:
        turn = body["prompt"].count(_TOOL_RESPONSE)
        ids, chance = (
            self._call_ids if turn < self._calls else self._answer_ids,
            Random(f"{body['model'][-3:]}{body['seed']}"),
        )
        return ids, [-chance.random() for _ in ids]


def chat_of(model: Path) -> OpenedChat:
    """As trainer and workers read it."""
    return open_chat(read_model_folder(model))


def save_base_model(folder: Path) -> Path:
    """A folder with everything of a base model that rollouts need."""
    from rft.starter.tokenizer import build_tokenizer

    build_tokenizer().save_pretrained(folder)
    return folder


def rows(count: int) -> list[DatasetRow]:
    """Questions."""
    tool = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
    lines = [
        json.dumps({"messages": [{"role": "user", "content": f"Margin of {number}?"}], "tools": [tool]})
        for number in range(count)
    ]
    parsed = [parse_row(line, line_number=number + 1, index=number) for number, line in enumerate(lines)]
    return [row for row in parsed if isinstance(row, DatasetRow)]


async def leased_job(database: Database) -> Lease:
    """A running job that nobody runs."""
    job = NewJob(
        id=public_id("ftjob-", token_bytes(24)), model="tiny", base_model_path="", training_file="file-none",
        validation_file=None, suffix=None, seed=1, metadata=None, method={"type": "reinforcement"},
        request={}, secrets=None,
    )  # fmt: skip
    async with database.transaction() as connection:
        await LifecycleRepository(connection).insert(job)
        await connection.execute("update jobs set status = 'queued' where id = %s", (job.id,))
        lease = await take(connection, job.id, owner="host/1/x", ttl_s=36_000.0, slots=1)
    assert isinstance(lease, Lease)
    return lease


@dataclass(frozen=True, slots=True)
class Servers:
    """Where everything that a run talks to listens."""

    platform: str
    vllm: tuple[str, ...]
    tool: str
    grader: str
    tool_gateway: str | None
    grader_gateway: str | None


def spec_of(
    servers: Servers, *, job_id: str, base_model: Path, is_given_out: bool, callback_url: str | None
) -> RunSpec:
    """One run over them."""
    return RunSpec(
        job_id=job_id,
        seed=5,
        base_model=str(base_model),
        chat=JobChat(),
        model_name="tiny",
        hyperparameters=ResolvedHyperparameters(
            n_epochs=1, batch_size=1, learning_rate_multiplier=1.0, compute_multiplier=1.0, eval_interval=1,
            eval_samples=1, group_size=8, steps=1,
        ),
        tools=(
            ToolServer(
                name="search", server_url=servers.tool, header_names=("X-Key",), schema_of_job=SEARCH,
                callback_url=callback_url,
            ),
        ),
        grader=EndpointGrader(name="judge", url=servers.grader),
        engine=Engine.VLLM,
        vllm=VllmSpec(servers=servers.vllm),
        egress=EgressSettings(allow_loopback=True),
        tool_gateway_url=servers.tool_gateway,
        grader_gateway_url=servers.grader_gateway,
        rollout_workers=RolloutWorkersSpec(platform_url=servers.platform) if is_given_out else None,
    )  # fmt: skip


@dataclass(slots=True)
class TrainerSide:
    """What the trainer's process does for a step's rollouts, without the trainer."""

    setup: RolloutSetup
    engine: VllmEngine
    began: list[RolloutBegan]
    attempts: list[Attempt]
    notices: list[Notice]
    ended: list[Rollout] = field(default_factory=list[Rollout])

    async def step(self, given: Sequence[DatasetRow], group_size: int) -> StepRollouts:
        """Every row so many times."""
        return await run_step(
            [StepRow(row, 0) for row in given],
            setup=self.setup,
            job_id="ftjob-1",
            job_seed=5,
            step=1,
            group_size=group_size,
            replacement_share=0.0,
            on_rollout=lambda rollout, _: self.ended.append(rollout),
        )


@asynccontextmanager
async def trainer_side(
    spec: RunSpec, *, broker_url: str = "", inbox_token: str = "", folder: Path, adapter: Path
) -> AsyncGenerator[TrainerSide]:
    """With policy version 1 published to the servers."""
    from rft.trainer.given_out import GivenOut
    from rft.trainer.run_chat import RunChat

    secrets = RunSecrets(
        tool_headers={"search": {"X-Key": TOOL_KEY}}, gateway_token=GATEWAY_TOKEN, vllm_api_key=VLLM_KEY,
        broker_url=broker_url, inbox_token=inbox_token,
    )  # fmt: skip
    chat = chat_of(Path(spec.base_model))
    engine = VllmEngine(
        [ServerAddress(url) for url in spec.vllm.servers],
        AdapterFolder(folder, run=spec.job_id, launch="1"),
        EngineOptions(base_model=spec.base_model, max_context_tokens=CONTEXT_TOKENS, api_key=VLLM_KEY, poll_s=0.1),
    )
    began, attempts, notices = list[RolloutBegan](), list[Attempt](), list[Notice]()

    async def note(one: RolloutBegan) -> None:
        began.append(one)

    def tell(event: Notice | StillWaiting) -> None:
        if isinstance(event, Notice):
            notices.append(event)

    connections = await open_connections(spec, secrets, ConnectionOptions(attempts.append))
    setup = rollout_setup(spec, connections, engine, chat.chat_format, on_begun=note)
    given_out = None
    try:
        await engine.publish(1, adapter)
        if spec.rollout_workers is not None:
            given_out = GivenOut(spec, secrets, tell=tell, on_attempt=attempts.append)
            run_chat = RunChat(chat.chat_format, saved_chat(chat))
            await given_out.open(run_chat, max_context_tokens=CONTEXT_TOKENS, connections=connections)
            setup = replace(setup, executor=given_out.executor)
        yield TrainerSide(setup, engine, began, attempts, notices)
    finally:
        if given_out is not None:
            await given_out.aclose()
        await connections.aclose()
        await engine.close()


class WorkerProcess:
    """A rollout worker as `rft worker` starts it."""

    def __init__(self, broker_url: str, log: Path, *, threads: int = 4) -> None:
        self._log = log
        config = {
            "broker_url": broker_url,
            "gateway_token": GATEWAY_TOKEN,
            "vllm_api_key": VLLM_KEY,
            "threads": threads,
        }
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rft.trainer.rollout_worker"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(config).encode())
        self.process.stdin.close()

    @property
    def said(self) -> str:
        """Its log."""
        return self._log.read_text()

    async def ready(self) -> "WorkerProcess":
        """Once it takes messages."""

        def is_ready() -> bool:
            assert self.process.poll() is None, self.said
            return " ready." in self.said

        await until(is_ready, "a rollout worker")
        return self

    def kill(self) -> None:
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM, and its exit status."""
        self.process.terminate()
        return self.process.wait(120)

    def end(self) -> None:
        """Whatever state it is in, it is gone now."""
        if self.process.poll() is None:
            self.kill()
