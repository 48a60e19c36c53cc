"""Rehearsal: a training step's burst at the customer's tools and grader, without a model.

Each rollout makes its tool calls one after the other, as a model would, with arguments drawn from its row, and asks
for a grade. The wire is that of training: same bodies, headers, signatures, retries and adaptive limits.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from rft.core.attempt import Attempt
from rft.core.base import Record
from rft.core.dataset import DatasetRow
from rft.core.failure import Failure
from rft.core.grade import Grade
from rft.core.graders import EndpointGrader, GraderSpec, MultiGrader
from rft.core.messages import Message, Role, ToolCall, ToolSchema
from rft.core.response_format import ResponseFormat
from rft.core.rollout import RolloutKey, Split
from rft.core.spec import RetryBudget, RunSecrets, ToolServer
from rft.egress.adaptive import AdaptiveSettings
from rft.egress.breaker import BreakerSettings
from rft.egress.endpoint_client import EndpointClient
from rft.egress.limits import Limits
from rft.egress.reply import SizeCaps
from rft.egress.signing import Signer
from rft.grader_gateway.answer_format import AnswerFormat
from rft.grader_gateway.gateway import HttpGraderGateway
from rft.rollouts.at_once import all_at_once
from rft.rollouts.call_ids import wire_call_id
from rft.rollouts.gateways import FinishedTrace
from rft.rollouts.rehearsal_advice import advise
from rft.rollouts.rehearsal_arguments import answer_for, arguments_for
from rft.rollouts.rehearsal_figures import Seen, to_report
from rft.rollouts.rehearsal_material import Material, answer_of
from rft.rollouts.rehearsal_report import RehearsalPlan, RehearsalReport
from rft.rollouts.setup import random_trace_id
from rft.tool_gateway.arguments import ArgumentChecker
from rft.tool_gateway.callbacks import RolloutCallbacks
from rft.tool_gateway.gateway import HttpToolGateway

_FIRST_LIMIT = 8
"""Calls at once in the beginning: low, so that the endpoint is seen under light load too."""
_LOOK_S = 0.02
_BUSY_MS = 50.0
_PATIENCE_S = 10.0
"""How long an endpoint may be down before calls to it fail at once: a rehearsal need not wait for its return."""


class RehearsalSpec(Record):
    """Everything a rehearsal is told, but for rows and secrets."""

    rehearsal_id: str
    seed: int
    model_name: str
    """Shown to the grader."""
    plan: RehearsalPlan
    tools: tuple[ToolServer, ...]
    grader: GraderSpec
    response_format: ResponseFormat | None = None
    """What answers must be."""
    retry: RetryBudget = RetryBudget()
    max_calls_in_flight: int = 512
    max_call_bytes: int = 1_000_000
    max_reply_bytes: int = 1_000_000
    allow_loopback: bool = True
    allow_cidrs: tuple[str, ...] = ()


async def rehearse(
    rows: Sequence[DatasetRow],
    spec: RehearsalSpec,
    secrets: RunSecrets,
    *,
    on_rollout: Callable[[], None] = lambda: None,
) -> RehearsalReport:
    """Play the burst and tell what came of it. `on_rollout` hears each end. Raises ValueError without rows."""
    if not rows:
        raise ValueError("a rehearsal needs a row at least")
    attempts: list[Attempt] = []
    limits = Limits.adaptive(
        spec.max_calls_in_flight,
        window=AdaptiveSettings(start=_FIRST_LIMIT, largest=spec.max_calls_in_flight),
        breaker=BreakerSettings(max_open_s=_PATIENCE_S),
    )
    client = EndpointClient.open(
        retry=spec.retry,
        allow_loopback=spec.allow_loopback,
        allow_cidrs=spec.allow_cidrs,
        limits=limits,
        caps=SizeCaps(request_bytes=spec.max_call_bytes, reply_bytes=spec.max_reply_bytes),
        signer=Signer(secrets.signing_secrets) if secrets.signing_secrets else None,
        on_attempt=attempts.append,
    )
    async with client:
        burst = _Burst(
            spec=spec,
            tools=HttpToolGateway(client, spec.tools, headers=secrets.tool_headers, job_id=spec.rehearsal_id),
            graders=_graders(spec, secrets, client),
            callbacks=RolloutCallbacks(client, spec.tools, headers=secrets.tool_headers, job_id=spec.rehearsal_id),
            on_rollout=on_rollout,
            wanted=None if spec.response_format is None else AnswerFormat(spec.response_format),
        )
        try:
            await burst.play(rows)
        finally:
            await burst.callbacks.aclose()
    graders = tuple(endpoint_graders(spec.grader).values())
    report = to_report(spec.plan, spec.tools, graders, burst.seen, attempts)
    return report.model_copy(update={"assumptions": assumptions(spec, report), "advice": advise(report, spec.plan)})


def endpoint_graders(grader: GraderSpec) -> dict[str, EndpointGrader]:
    """The graders behind URLs, by name: those that a rehearsal calls."""
    match grader:
        case EndpointGrader():
            return {grader.name: grader}
        case MultiGrader():
            parts = grader.graders.items()
            return {
                variable: part.model_copy(update={"name": variable})
                for variable, part in parts
                if isinstance(part, EndpointGrader)
            }
        case _:
            return {}


def _graders(spec: RehearsalSpec, secrets: RunSecrets, client: EndpointClient) -> list[HttpGraderGateway]:
    is_single = isinstance(spec.grader, EndpointGrader)
    return [
        HttpGraderGateway(
            client,
            grader,
            headers=secrets.grader_headers if is_single else secrets.part_headers.get(name, {}),
            job_id=spec.rehearsal_id,
        )
        for name, grader in endpoint_graders(spec.grader).items()
    ]


@dataclass(slots=True)
class _Burst:
    """All rollouts of one rehearsal."""

    spec: RehearsalSpec
    tools: HttpToolGateway
    graders: Sequence[HttpGraderGateway]
    callbacks: RolloutCallbacks
    on_rollout: Callable[[], None]
    wanted: AnswerFormat | None = None
    seen: Seen = field(default_factory=Seen)
    _checker: ArgumentChecker = field(default_factory=ArgumentChecker)

    @property
    def _described(self) -> tuple[ToolSchema, ...]:
        """What the job says of its tools, for rows that say nothing."""
        return tuple(tool.schema_of_job for tool in self.spec.tools if tool.schema_of_job)

    async def play(self, rows: Sequence[DatasetRow]) -> None:
        """Everything at once; what is not finished in time is cancelled."""
        plan = self.spec.plan
        chosen = Random(self.spec.seed).sample(list(rows), min(plan.rows_per_step, len(rows)))
        materials = [(row, Material.of(row)) for row in chosen]
        # Fewer rows than a step has: they are played again, in seats of their own.
        seats = [
            (*materials[place % len(materials)], index + plan.group_size * (place // len(materials)))
            for index in range(plan.group_size)
            for place in range(plan.rows_per_step)
        ]
        started_s = time.monotonic()
        deadline = asyncio.timeout(plan.max_s)
        delays = asyncio.create_task(self._watch_own_delay())
        try:
            async with deadline:
                await all_at_once(self._rollout(*seat) for seat in seats[: plan.rollouts])
        except TimeoutError:
            if not deadline.expired():
                raise
        finally:
            delays.cancel()
        self.seen.wall_s = time.monotonic() - started_s

    async def _watch_own_delay(self) -> None:
        while True:
            due_s = time.monotonic() + _LOOK_S
            await asyncio.sleep(_LOOK_S)
            self.seen.own_delays_s.append(time.monotonic() - due_s)

    async def _rollout(self, row: DatasetRow, material: Material, index: int) -> None:
        key = RolloutKey(
            job_id=self.spec.rehearsal_id,
            job_seed=self.spec.seed,
            split=Split.TRAIN,
            step=1,
            epoch=0,
            row_index=row.index,
            index=index,
        )
        trace_id = random_trace_id()
        outcome: Grade | Failure | None = None
        try:
            refusal = await self.callbacks.started(item=row.item, trace_id=trace_id)
            outcome = refusal or await self._converse(row, material, Random(key.seed), trace_id)
        finally:
            self.callbacks.ended(trace_id=trace_id, outcome=outcome)
        self.seen.finished += 1
        if refusal is not None:
            self.seen.callback_failures.append(refusal)
        elif isinstance(outcome, Failure):
            self.seen.failures.append(outcome)
        self.on_rollout()

    async def _converse(
        self, row: DatasetRow, material: Material, rng: Random, trace_id: str
    ) -> Grade | Failure | None:
        """Tool calls, then the grade; None where nobody is asked for one."""
        tools = row.tools or self._described
        messages, first = list(row.messages), rng.randrange(max(1, len(tools)))
        for turn in range(self.spec.plan.calls_per_rollout if tools else 0):
            await self._think(rng)
            tool = tools[(first + turn) % len(tools)]
            arguments = arguments_for(tool, material, rng, self._checker)
            if arguments is None:
                self.seen.unwritten_calls += 1
                continue
            call = ToolCall(call_id=wire_call_id(trace_id, turn=turn, position=0), name=tool.name, arguments=arguments)
            result = await self.tools.call(call, tools=tools, item=row.item, trace_id=trace_id)
            if result.failure is not None:
                return result.failure
            self.seen.answered[call.name] += 1
            if result.suspected_failure is not None:
                self.seen.not_found[call.name] += 1
            messages.append(Message(role=Role.ASSISTANT, content="", tool_calls=(call,)))
            messages.append(
                Message(role=Role.TOOL, content=result.output or "", tool_call_id=call.call_id, name=call.name)
            )
        await self._think(rng)
        messages.append(Message(role=Role.ASSISTANT, content=self._answer(row, material, rng)))
        return await self._grade(row, trace_id, messages)

    def _answer(self, row: DatasetRow, material: Material, rng: Random) -> str:
        answer, wanted = answer_of(row, material, rng), self.spec.response_format
        if wanted is None or self.wanted is None or self.wanted.problem(answer) is None:
            return answer
        return answer_for(self.wanted, wanted.json_schema or {"type": "object"}, material, rng) or answer

    async def _grade(self, row: DatasetRow, trace_id: str, messages: Sequence[Message]) -> Grade | Failure | None:
        trace = FinishedTrace(
            messages=messages,
            prompt_messages=len(row.messages),
            finish_reason="stop",
            model=self.spec.model_name,
            tools=row.tools or self._described,
        )
        is_misfit = self.wanted is not None and self.wanted.problem(messages[-1].content) is not None
        verdicts = await all_at_once(
            (grader.grade_misfit if is_misfit else grader.grade)(trace, item=row.item, trace_id=trace_id)
            for grader in self.graders
        )
        failure = next((verdict for verdict in verdicts if isinstance(verdict, Failure)), None)
        return failure or next(iter(verdicts), None)

    async def _think(self, rng: Random) -> None:
        await asyncio.sleep(rng.uniform(0.0, 2.0 * self.spec.plan.think_time_s))


def assumptions(spec: RehearsalSpec, report: RehearsalReport) -> tuple[str, ...]:
    """What the figures of such a rehearsal rest on."""
    plan = spec.plan
    said = [
        f"Each rollout makes {plan.calls_per_rollout} tool calls one after the other; a real policy may make more.",
        "The time a model needs to sample is not included.",
        "Arguments are made up from the rows, so answers may be faster or slower than those to a real policy.",
    ]
    if plan.rollouts < plan.burst:
        said.append(f"{plan.rollouts} of the step's {plan.burst} rollouts were played, and the step time scaled up.")
    if not endpoint_graders(spec.grader):
        said.append(
            f"Grader '{spec.grader.name}' ({spec.grader.type}) was not called: it is not behind a URL of yours."
        )
    if report.own_delay_p95_ms >= _BUSY_MS:
        said.append(
            f"The machine that rehearsed was busy itself: latencies hold up to {report.own_delay_p95_ms:.0f} ms of"
            " its own delay, so your endpoints may be faster than they look."
        )
    return tuple(said)
