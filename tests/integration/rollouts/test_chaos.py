"""Whole rollouts against endpoints that break in every way: one outcome each, labelled right, nobody trampled."""

import hashlib
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rft.chat.hermes import HermesChatFormat
from rft.core.attempt import Attempt
from rft.core.dataset import DatasetRow, parse_row
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.failure import Fault as Blame
from rft.core.grade import Grade
from rft.core.graders import EndpointGrader
from rft.core.rollout import Rollout
from rft.core.spec import Budgets, RetryBudget, ToolServer
from rft.egress.breaker import BreakerSettings
from rft.egress.client import HttpClient
from rft.egress.endpoint_client import EndpointClient
from rft.egress.guard import AddressPolicy
from rft.egress.limits import Limits
from rft.egress.retry import RETRYABLE
from rft.grader_gateway.gateway import HttpGraderGateway
from rft.rollouts.executor import StepRollouts, run_step
from rft.rollouts.group import StepRow
from rft.rollouts.setup import RolloutSetup
from rft.testing.certificates import self_signed
from rft.testing.endpoint import ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.faults import BrokenRollouts, Fault, FaultKind, FaultPlan, FaultSequence, NoFaults
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.names import ScriptedNames
from rft.testing.samplers import ScriptedSampler, tool_call_text
from rft.testing.samplers_tokenizer import ByteTokenizer
from rft.testing.trace_ids import trace_ids
from rft.tool_gateway.gateway import HttpToolGateway
from tests.shared.examples import examples
from tests.shared.waiting import PATIENCE_S

GROUP_SIZE = 4
PUBLIC, PRIVATE = "127.0.0.1", "127.0.0.2"
ONLY_PUBLIC = AddressPolicy(allow_loopback=False, allow_cidrs=(f"{PUBLIC}/32",))
CAP = 6
QUICK = RetryBudget(max_retries=2, total_s=300.0, first_wait_s=0.001, max_wait_s=0.002)
SEARCH = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
MODEL_CODES = {FaultKind.OVERSIZE: "oversize_reply", FaultKind.BOMB: "oversize_reply"}
CODES = {
    FaultKind.STATUS: FailureCode.SERVER_ERROR,
    FaultKind.RESET_BEFORE_HEADERS: FailureCode.CONNECTION_RESET,
    FaultKind.RESET_AFTER_HEADERS: FailureCode.CONNECTION_RESET,
    FaultKind.HALF_CLOSED: FailureCode.CONNECTION_RESET,
    FaultKind.EARLY_END: FailureCode.CONNECTION_RESET,
    FaultKind.GARBAGE: FailureCode.INVALID_REPLY,
    FaultKind.HANG: FailureCode.TIMEOUT,
    FaultKind.SLOW_DRIP: FailureCode.TIMEOUT,
    FaultKind.NOT_JSON: FailureCode.INVALID_REPLY,
    FaultKind.EMPTY_BODY: FailureCode.INVALID_REPLY,
    FaultKind.SHAPELESS: FailureCode.INVALID_REPLY,
    FaultKind.WRONG_CONTENT_TYPE: FailureCode.INVALID_REPLY,
    FaultKind.FALSE_ENCODING: FailureCode.INVALID_REPLY,
    FaultKind.REDIRECT: FailureCode.UNEXPECTED_STATUS,
    FaultKind.NAN_SCORE: FailureCode.INVALID_REPLY,
    FaultKind.INFINITE_SCORE: FailureCode.INVALID_REPLY,
    FaultKind.TEXT_SCORE: FailureCode.INVALID_REPLY,
    FaultKind.BOOLEAN_SCORE: FailureCode.INVALID_REPLY,
}
"""What a tool that breaks like this is blamed with. A fault kind in neither table fails the first test below."""


def rows(count: int) -> list[DatasetRow]:
    lines = [
        json.dumps({"messages": [{"role": "user", "content": f"Question {n}?"}], "tools": [SEARCH]})
        for n in range(count)
    ]
    parsed = [parse_row(line, line_number=n + 1, index=n) for n, line in enumerate(lines)]
    return [row for row in parsed if isinstance(row, DatasetRow)]


class Customer:
    """A customer's endpoints behind a name, our client for it, and what both saw."""

    def __init__(self, server: LoopbackEndpoint, names: ScriptedNames, client: EndpointClient) -> None:
        self.server, self.names, self.client = server, names, client
        self._draw_trace_id = trace_ids()  # What breaks hangs on the ids: the same ones in each run of a test.
        self.ledger: list[Attempt] = []
        client.on_attempt = self.ledger.append

    async def step(
        self, count: int, *, tool_timeout_s: float = 0.25, grader_timeout_s: float = 0.25, grader_url: str | None = None
    ) -> StepRollouts:
        """One step of `count` rows: each rollout searches twice, then answers."""
        url = f"http://tools.example.com:{urlsplit(self.server.base_url).port}"
        chat_format = HermesChatFormat(ByteTokenizer())
        call = tool_call_text("search", '{"q": 1}')
        turns = [call, call, "done"]
        setup = RolloutSetup(
            sampler=ScriptedSampler(
                chat_format.tokenizer, lambda _, prompt: turns[prompt.count("<|im_start|>assistant\n") - 1]
            ),
            chat_format=chat_format,
            tools=HttpToolGateway(
                self.client,
                [ToolServer(name="search", server_url=f"{url}/tool", timeout_s=tool_timeout_s)],
                job_id="ftjob-1",
            ),
            grader=HttpGraderGateway(
                self.client,
                EndpointGrader(name="judge", url=grader_url or f"{url}/grade", timeout_s=grader_timeout_s),
                job_id="ftjob-1",
            ),
            grader_name="judge",
            budgets=Budgets(),
            temperature=1.0,
            model_name="starter",
            draw_trace_id=self._draw_trace_id,
        )
        return await run_step(
            [StepRow(row, 0) for row in rows(count)],
            setup=setup,
            job_id="ftjob-1",
            job_seed=7,
            step=1,
            group_size=GROUP_SIZE,
            replacement_share=0.0,
            on_rollout=lambda rollout, was_replaced: None,
        )


@asynccontextmanager
async def customer(
    faults: FaultPlan,
    limits: Limits,
    *,
    policy: AddressPolicy | None = None,
    names: ScriptedNames | None = None,
    latency_s: float = 0.0,
) -> AsyncGenerator[Customer]:
    endpoint = ScriptedEndpoint(
        ScriptedTools({"search": lambda arguments, item: "found"}),
        ScriptedGrader(lambda sample, item: len(str(item["messages"])) / 100),
        faults=faults,
        latency_s=latency_s,
    )
    known = names or ScriptedNames(PUBLIC)
    http = HttpClient(policy or AddressPolicy(), make_resolver=lambda: known)
    async with (
        LoopbackEndpoint(endpoint) as server,
        EndpointClient(http, limits=limits, retry=QUICK) as client,
    ):
        yield Customer(server, known, client)


def all_rollouts(done: StepRollouts) -> list[Rollout]:
    return [rollout for group in done.groups for rollout in group.rollouts]


def adaptive() -> Limits:
    return Limits.adaptive(CAP, breaker=BreakerSettings(first_pause_s=0.01, max_pause_s=0.05))


faults = st.none() | st.builds(
    Fault,
    st.sampled_from(FaultKind),
    status=st.sampled_from([302, 400, 404, 429, 500, 503]),
    retry_after=st.sampled_from([None, "0"]),
)


@settings(max_examples=examples(25), deadline=None)
@given(sequence=st.lists(faults, max_size=40), count=st.integers(1, 4), is_adaptive=st.booleans())
async def test_whatever_happens_each_rollout_ends_once_within_budget_guard_and_limits(
    sequence: list[Fault | None], count: int, *, is_adaptive: bool
) -> None:
    async with customer(FaultSequence(sequence), adaptive() if is_adaptive else Limits.fixed(CAP)) as place:
        ended = all_rollouts(await place.step(count))
    assert len({rollout.trace_id for rollout in ended}) == count * GROUP_SIZE
    for rollout in ended:
        assert isinstance(rollout.outcome, Grade | Failure)
        assert (rollout.reward is None) == isinstance(rollout.outcome, Failure)
        if isinstance(rollout.outcome, Failure):
            assert rollout.outcome.fault is Blame.ENDPOINT
            assert 1 <= rollout.outcome.attempts <= QUICK.max_retries + 1
    calls = [call for call in place.server.endpoint.calls if "idempotency-key" in call.headers]
    tries = Counter(call.headers["idempotency-key"] for call in calls)
    assert max(tries.values()) <= QUICK.max_retries + 1
    arrived = Counter((*call.headers["idempotency-key"].split("/"), call.headers["x-rft-attempt"]) for call in calls)
    made = Counter((line.trace_id, line.call_id, str(line.attempt)) for line in place.ledger)
    timed_out = Counter(
        (line.trace_id, line.call_id, str(line.attempt)) for line in place.ledger if line.code is FailureCode.TIMEOUT
    )
    # On a busy machine the time of a call can be over before the endpoint has looked at it.
    assert made - timed_out <= arrived <= made
    assert set(place.server.endpoint.most_posts) <= {"/tool", "/grade"}
    assert max(place.server.endpoint.most_posts.values()) <= CAP, "of the tool and of the grader, counted there"


@settings(max_examples=examples(25), deadline=None)
@given(
    answers=st.lists(st.sampled_from([PUBLIC, PRIVATE, (PUBLIC, PRIVATE), (PRIVATE, PUBLIC)]), min_size=1, max_size=12),
    sequence=st.lists(faults, max_size=12),
    is_adaptive=st.booleans(),
)
async def test_whatever_its_name_comes_to_mean_no_address_is_called_that_the_guard_refuses(
    answers: list[str | tuple[str, str]], sequence: list[Fault | None], *, is_adaptive: bool
) -> None:
    """The name leads to a refused address now and then, also in the middle of the sequence."""
    names = ScriptedNames(*answers)
    limits = adaptive() if is_adaptive else Limits.fixed(CAP)
    async with (
        customer(FaultSequence(sequence), limits, names=names, policy=ONLY_PUBLIC) as place,
        LoopbackEndpoint(ScriptedEndpoint(), port=place.server.port, address=PRIVATE) as private,
    ):
        is_refused = all(PUBLIC not in answer for answer in answers)
        timeout_s = PATIENCE_S if is_refused else 0.25  # Where nobody is called, nobody is slow.
        ended = all_rollouts(await place.step(2, tool_timeout_s=timeout_s, grader_timeout_s=timeout_s))
        assert private.connections == 0
    assert names.asked >= 1
    failures = [rollout.outcome for rollout in ended if isinstance(rollout.outcome, Failure)]
    assert {failure.fault for failure in failures} <= {Blame.ENDPOINT}
    if is_refused:
        assert {failure.code for failure in failures} == {FailureCode.BLOCKED_ADDRESS}
        assert place.server.connections == 0


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sequence=st.lists(faults, max_size=12), is_expired=st.booleans())
async def test_a_grader_with_a_bad_certificate_never_grades_and_is_blamed_for_it(
    tmp_path: Path, sequence: list[Fault | None], *, is_expired: bool
) -> None:
    tls = self_signed(tmp_path / "server.pem", is_expired=is_expired)
    async with (
        customer(FaultSequence(sequence), Limits.fixed(CAP)) as place,
        LoopbackEndpoint(ScriptedEndpoint(), tls=tls) as grader,
    ):
        ended = all_rollouts(await place.step(2, grader_url=grader.grader_url, grader_timeout_s=PATIENCE_S))
        assert grader.endpoint.calls == []
    failures = [rollout.outcome for rollout in ended if isinstance(rollout.outcome, Failure)]
    assert len(failures) == len(ended)
    assert {failure.code for failure in failures if failure.stage is Stage.GRADER} <= {FailureCode.TLS_ERROR}
    if not any(sequence):
        assert {failure.stage for failure in failures} == {Stage.GRADER}


async def test_without_the_guards_leave_nobody_is_called() -> None:
    async with customer(NoFaults(), Limits.fixed(CAP), policy=AddressPolicy(allow_loopback=False)) as place:
        ended = all_rollouts(await place.step(2))
        assert place.server.connections == 0
    failures = [rollout.outcome for rollout in ended if isinstance(rollout.outcome, Failure)]
    assert len(failures) == len(ended)
    assert {failure.code for failure in failures} == {FailureCode.BLOCKED_ADDRESS}
    assert {failure.attempts for failure in failures} == {1}


def is_broken(rollout: Rollout, share: float, kinds: list[FaultKind]) -> FaultKind | None:
    """What `BrokenRollouts` did to a rollout."""
    draw = int.from_bytes(hashlib.sha256(f"0/{rollout.trace_id}".encode()).digest()[:8], "big")
    return kinds[draw % len(kinds)] if (draw >> 8) / 2**56 < share else None


@pytest.mark.slow
@pytest.mark.parametrize("is_adaptive", [pytest.param(False, marks=pytest.mark.thorough), True])
async def test_a_fifth_of_the_rollouts_breaks_and_each_is_labelled_right_while_the_others_score_as_ever(
    *, is_adaptive: bool
) -> None:
    share, kinds = 0.2, list(FaultKind)
    broken = BrokenRollouts(share, [Fault(kind, status=500) for kind in kinds])
    async with customer(NoFaults(), Limits.fixed(64)) as place:
        undisturbed = await place.step(30, tool_timeout_s=PATIENCE_S, grader_timeout_s=PATIENCE_S)
    clean = {rollout.key: rollout.reward for rollout in all_rollouts(undisturbed)}
    limits = (
        Limits.adaptive(64, breaker=BreakerSettings(first_pause_s=0.01, max_pause_s=0.05))
        if is_adaptive
        else Limits.fixed(64)
    )
    async with customer(broken, limits) as place:
        ended = all_rollouts(await place.step(30, tool_timeout_s=8.0, grader_timeout_s=PATIENCE_S))
    seen: set[FaultKind] = set()
    for rollout in ended:
        kind = is_broken(rollout, share, kinds)
        if kind is None:
            assert rollout.reward == clean[rollout.key]
            continue
        seen.add(kind)
        assert isinstance(rollout.outcome, Failure), kind
        assert rollout.outcome.fault is Blame.ENDPOINT
        if kind in MODEL_CODES:
            # The model is told that the tool's reply was too large; the grader's oversize reply is nobody's grade.
            assert {result.error_code for turn in rollout.trace.turns for result in turn.results} == {MODEL_CODES[kind]}
            assert (rollout.outcome.stage, rollout.outcome.code) == (Stage.GRADER, FailureCode.OVERSIZE_REPLY)
            continue
        assert (rollout.outcome.stage, rollout.outcome.endpoint) == (Stage.TOOL, "search")
        assert rollout.outcome.code is CODES[kind], kind
        assert rollout.outcome.attempts == (QUICK.max_retries + 1 if CODES[kind] in RETRYABLE else 1)
    assert len(seen) >= 12
    assert sum(rollout.reward is None for rollout in ended) == sum(
        is_broken(rollout, share, kinds) is not None for rollout in ended
    )
