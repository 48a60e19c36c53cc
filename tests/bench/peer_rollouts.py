"""Rollouts of messages against one mock model server: ours, and those of two releases of `verifiers`.

A rollout is four model turns and three tool calls, each of 100 ms, and a grade by a function. All sides ask the same
model server, in a process of its own. Tools of `verifiers` are coroutines that sleep, in its own process (0.1.9's
ToolEnv) or in one tool server for all rollouts (newest, over MCP); ours are asked over HTTP.

0.1.9 runs with the client that its `vf-eval` sets up, once with the 32 rollouts at a time that this takes, which was
faster than 64, 128 or all, and once with all. The newest runs its lightest agent, the `null` harness, in its lightest
runtime: a process for each rollout, whose start takes more than two seconds of processor time.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rft.core.dataset import DatasetRow, parse_row
from rft.core.egress_settings import EgressSettings
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.spec import Budgets, ToolServer
from rft.egress.endpoint_client import EndpointClient
from rft.rollouts.measure_model import measure_model
from rft.rollouts.message_rollout import MessageSetup
from rft.rollouts.provider_policy import ProviderEndpoint, ProviderPolicy, open_provider_client
from rft.testing.chat_policies import chat_call
from rft.testing.endpoint import ScriptedEndpoint, ScriptedTools
from rft.testing.faults import Fault, HttpAnswer, ReceivedCall
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.provider import ScriptedProvider
from rft.testing.samplers_gateways import FunctionGrader
from rft.tool_gateway.gateway import HttpToolGateway

TASKS, LATENCY_S, MODEL = 64, 0.1, "small"
QUERY, OUTPUT, ANSWER = "operating margin 2019", "Acme: 0.173. " * 10, "The operating margin was 0.173."
CALLS = 3
PROGRAMS = Path(__file__).with_name("peer_programs")
WARM_UP = 16
"""Rollouts before those that count: they open connections and import what is imported late."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A release of `verifiers`, and how it is run."""

    release: str
    program: str
    at_once: int | None
    """Rollouts under way at most; None: all."""
    repeats: int
    """At most: where one takes minutes, two say enough."""
    further: tuple[str, ...]
    """What is installed beside it: what its figures depend on, and what it expects to be there."""

    @property
    def name(self) -> str:
        """Of its case."""
        return f"verifiers {self.release}, {self.at_once or 'all'} at once"


_OF_TOOL_ENV, _OF_NULL = ("openai==3.54.0", "httpx==0.28.1"), ("openai==2.54.0", "httpx==0.28.1", "uv==0.13.9")
PEERS = (
    Peer("0.1.9", "verifiers_tool_env.py", 32, repeats=5, further=_OF_TOOL_ENV),
    Peer("0.1.9", "verifiers_tool_env.py", None, repeats=3, further=_OF_TOOL_ENV),
    Peer("0.4.0", "verifiers_null_harness.py", 32, repeats=2, further=_OF_NULL),
)


@dataclass(frozen=True, slots=True)
class Burst:
    """All rollouts once."""

    wall_s: float
    cpu_s: float
    """Of the client: all processes it starts, without the server's."""
    rollouts: int
    answered: int
    """Those that went through all turns and calls, and were graded 1."""
    turns: int
    tool_calls: int


@dataclass(frozen=True, slots=True)
class MockServers:
    """Where model and tool listen."""

    model_url: str
    tool_url: str


class MockModel(ScriptedProvider):
    """Also answers as a stream, which the newest `verifiers` asks for: all of it at once, after the latency."""

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        answer = await super().answer(call)
        if isinstance(answer, Fault) or answer.status != 200 or not json.loads(call.body or b"{}").get("stream"):
            return answer
        whole = json.loads(answer.body)
        (choice,) = whole["choices"]
        message = choice["message"]
        calls = [{**one, "index": index} for index, one in enumerate(message.get("tool_calls") or [])]
        delta = {**message, "tool_calls": calls} if calls else message
        common = {**whole, "object": "chat.completion.chunk", "usage": None}
        chunks = [
            {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**common, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
            {**common, "choices": [], "usage": whole["usage"]},
        ]
        lines = [json.dumps(chunk) for chunk in chunks] + ["[DONE]"]
        body = "".join(f"data: {line}\n\n" for line in lines).encode()
        return HttpAnswer(200, body, {"content-type": "text/event-stream"})


async def serve(latency_s: float) -> None:
    """Model and tool until standard input ends; tells where they are."""
    call = chat_call("search", json.dumps({"query": QUERY}))
    model = MockModel([*[[call]] * CALLS, ANSWER], models=(MODEL,), latency_s=latency_s)
    tool = ScriptedEndpoint(ScriptedTools({"search": lambda arguments, item: OUTPUT}), latency_s=latency_s)
    async with LoopbackEndpoint(model) as served, LoopbackEndpoint(tool) as tools:
        print(json.dumps([f"{served.base_url}/v1", tools.tool_url]), flush=True)
        await asyncio.to_thread(sys.stdin.read)


@asynccontextmanager
async def mock_servers(latency_s: float = LATENCY_S) -> AsyncGenerator[MockServers]:
    """In a process of their own."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.peer_rollouts", "serve", str(latency_s), stdin=pipe, stdout=pipe
    )
    try:
        assert process.stdout is not None
        yield MockServers(*json.loads(await process.stdout.readline()))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def row_of(number: int) -> DatasetRow:
    """The question of one task."""
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    tool = {"type": "function", "function": {"name": "search", "parameters": parameters}}
    asked = {"role": "user", "content": f"What was the operating margin of company {number}?"}
    row = parse_row(json.dumps({"messages": [asked], "tools": [tool]}), line_number=number + 1, index=number)
    assert isinstance(row, DatasetRow)
    return row


async def _is_answered(trace: FinishedTrace, trace_id: str) -> float:
    return float(trace.messages[-1].content == ANSWER)


async def our_burst(servers: MockServers, rollouts: int) -> Burst:
    """Through the client of providers and the gateway of tools, in this process."""
    async with (
        open_provider_client(EgressSettings()) as to_model,
        EndpointClient.open(EgressSettings()) as to_tools,
    ):
        provider = ProviderEndpoint(name="mock", base_url=servers.model_url, max_concurrency=rollouts)
        setup = MessageSetup(
            policy=ProviderPolicy(to_model, provider, MODEL),
            tools=HttpToolGateway(to_tools, (ToolServer(name="search", server_url=servers.tool_url),)),
            grader=FunctionGrader(_is_answered),
            grader_name="answered",
            budgets=Budgets(),
            model_name=MODEL,
        )
        await _measured(setup, WARM_UP)
        return await _measured(setup, rollouts)


async def _measured(setup: MessageSetup, rollouts: int) -> Burst:
    rows = [row_of(number) for number in range(min(TASKS, rollouts))]
    began_s, cpu_s = time.perf_counter(), time.process_time()
    measured = await measure_model(rows, setup, samples=rollouts // len(rows), limit=rollouts, seed=1)
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    ended = measured.rollouts
    assert not any(isinstance(rollout.outcome, Failure) for rollout in ended), "the mock servers fail nobody"
    return Burst(
        wall_s=wall_s,
        cpu_s=cpu_s,
        rollouts=len(ended),
        answered=sum(isinstance(rollout.outcome, Grade) and rollout.outcome.reward == 1 for rollout in ended),
        turns=sum(len(rollout.turns) for rollout in ended),
        tool_calls=sum(rollout.tool_calls for rollout in ended),
    )


def our_process(servers: MockServers, rollouts: int) -> Burst:
    """The same in a fresh process, as peers have one."""
    return _told([sys.executable, "-m", "tests.bench.peer_rollouts", "ours", servers.model_url, servers.tool_url,
                  str(rollouts)], None)  # fmt: skip


def peer_process(peer: Peer, home: Path, servers: MockServers, rollouts: int) -> Burst:
    """A peer in its own environment."""
    environment = installed(peer, home)
    order = {
        "model_url": servers.model_url, "model": MODEL, "tasks": min(TASKS, rollouts), "rollouts": rollouts,
        "latency_s": LATENCY_S, "output": OUTPUT, "answer": ANSWER, "at_once": peer.at_once, "warm_up": WARM_UP,
    }  # fmt: skip
    variables = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "HOME": str(environment),
        "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
    }
    return _told([str(environment / "bin" / "python"), str(PROGRAMS / peer.program), json.dumps(order)], variables)


def _told(command: Sequence[str], variables: dict[str, str] | None) -> Burst:
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=variables)
    return Burst(**json.loads(done.stdout.splitlines()[-1]))


def installed(peer: Peer, home: Path) -> Path:
    """Its environment below `home`, made where it is not there."""
    environment = home / f"verifiers-{peer.release}"
    wanted, marker = [f"verifiers=={peer.release}", *peer.further], environment / ".installed"
    if not marker.exists() or marker.read_text() != " ".join(wanted):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
        pip = [str(environment / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *wanted], check=True)
        marker.write_text(" ".join(wanted))
    return environment


def versions(peer: Peer, home: Path) -> dict[str, str]:
    """Releases that its figures depend on."""
    listed = subprocess.run(
        [str(home / f"verifiers-{peer.release}" / "bin" / "pip"), "list", "--format", "json"],
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    wanted = {"verifiers", "openai", "httpx", "pydantic", "mcp", "datasets", "torch"}
    return {one["name"]: one["version"] for one in json.loads(listed.stdout) if one["name"] in wanted}


def main(arguments: Sequence[str]) -> None:
    """As a process of the bench."""
    if arguments[0] == "serve":
        asyncio.run(serve(float(arguments[1])))
        return
    model_url, tool_url, rollouts = arguments[1:]
    burst = asyncio.run(our_burst(MockServers(model_url, tool_url), int(rollouts)))
    print(json.dumps({name: getattr(burst, name) for name in Burst.__slots__}))


if __name__ == "__main__":
    main(sys.argv[1:])
