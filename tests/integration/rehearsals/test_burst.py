"""A burst at a customer's endpoints: the wire is that of training, and the report says what happened there."""

import json
import socket
from collections import Counter

import pytest
from standardwebhooks import Webhook

from rft.core.failure import FailureCode
from rft.core.graders import EndpointGrader, MultiGrader, StringCheckGrader
from rft.core.messages import ToolSchema
from rft.core.spec import Budgets, RetryBudget, RunSecrets
from rft.egress.signing import new_secret
from rft.rollouts.rehearsal_advice import assumptions
from rft.rollouts.rehearsal_report import RehearsalReport
from rft.testing.endpoint import GRADER_PATH, TOOL_PATH
from rft.testing.faults import BrokenRollouts, Fault, FaultKind, FaultPlan, HttpAnswer, ReceivedCall, Saturation
from rft.testing.loopback import LoopbackEndpoint
from rft.tool_gateway.arguments import ArgumentChecker
from tests.integration.rehearsals.stage import HOOK_PATH, PARAMETERS, Customer, Wanted, of, rows, spec

SECRETS = RunSecrets(
    tool_headers={"search": {"Authorization": "Bearer tool-secret"}}, grader_headers={"X-Key": "grader-secret"}
)


class Only:
    """A fault for every call to one path."""

    def __init__(self, path: str, fault: Fault) -> None:
        self._path, self._fault = path, fault

    def next(self, call: ReceivedCall) -> Fault | None:
        """The path's fault."""
        return self._fault if call.path.startswith(self._path) and call.body else None


async def test_the_whole_burst_arrives_as_training_would_send_it() -> None:
    customer = Customer()
    async with LoopbackEndpoint(customer) as served:
        report = await spec(served).play(rows(6), SECRETS)
    calls = customer.tool_bodies
    assert Counter(body["trace_id"] for body in calls) == {body["trace_id"]: 3 for body in customer.grader_bodies}
    assert len(customer.grader_bodies) == 8
    assert all(body["trace_id"].startswith("trace_") for body in calls)
    assert {key for body in calls for key in body} == {
        "type", "id", "call_id", "name", "arguments", "trace_id", "item"
    }  # fmt: skip
    assert len({(body["trace_id"], body["call_id"]) for body in calls}) == 24
    schema, checker = ToolSchema(name="search", parameters=PARAMETERS), ArgumentChecker()
    assert all(checker.problem(schema, body["arguments"]) is None for body in calls)
    assert all(call.headers["idempotency-key"].startswith("trace_") for call in customer.calls)
    assert (report.rollouts, report.excluded_rollouts, report.unfinished_rollouts) == (8, 0, 0)
    assert (of(report, "search").calls, of(report, "judge").calls) == (24, 8)
    assert (of(report, "search").errors_by_code, of(report, "judge").errors_by_code) == ({}, {})


async def test_the_grader_gets_the_whole_trace_and_a_plausible_answer() -> None:
    customer = Customer()
    async with LoopbackEndpoint(customer) as served:
        await spec(served).play(rows(6), SECRETS)
    body = customer.grader_bodies[0]
    roles = [message["role"] for message in body["sample"]["trace"]["messages"]]
    assert roles == ["user", *("assistant", "tool") * 3, "assistant"]
    assert body["sample"]["output_text"] == json.dumps(body["item"]["answer"])
    assert body["sample"]["model"] == "tiny"
    assert len(body["sample"]["output_tools"]) == 3


async def test_the_same_seed_makes_the_same_calls() -> None:
    heard: list[list[tuple[str, str]]] = []
    for _ in range(2):
        customer = Customer()
        async with LoopbackEndpoint(customer) as served:
            await spec(served).play(rows(6), SECRETS)
        heard.append(
            sorted((body["item"]["messages"][-1]["content"], body["arguments"]) for body in customer.tool_bodies)
        )
    assert heard[0] == heard[1]


async def test_secrets_are_sent_and_never_told() -> None:
    customer = Customer(faults=Only("/tool", Fault(FaultKind.STATUS, status=500, body=b"you said tool-secret")))
    async with LoopbackEndpoint(customer) as served:
        report = await spec(served, rows_per_step=2).play(rows(2), SECRETS)
    assert customer.calls[0].headers["authorization"] == "Bearer tool-secret"
    assert of(report, "search").example_of_failure
    assert "tool-secret" not in report.model_dump_json()


async def test_calls_are_signed_when_the_platform_signs() -> None:
    customer = Customer()
    secret = new_secret(bytes(32))
    secrets = SECRETS.model_copy(update={"signing_secrets": (secret,)})
    async with LoopbackEndpoint(customer) as served:
        await spec(served, rows_per_step=2).play(rows(2), secrets)
    signed = [call for call in customer.calls if call.body]
    assert {call.path for call in signed} == {TOOL_PATH, GRADER_PATH}
    for call in signed:
        Webhook(secret).verify(call.body, dict(call.headers))


async def test_a_saturating_endpoint_is_told_by_its_errors_and_its_capacity() -> None:
    saturation = Saturation(capacity=20, service_s=0.3, refuses_above=40)
    tool, grader = Customer(faults=saturation, latency_s=saturation.latency_s), Customer()
    async with LoopbackEndpoint(tool) as served, LoopbackEndpoint(grader) as judge:
        wanted = spec(served, rows_per_step=16, group_size=8, grader=EndpointGrader(name="judge", url=judge.grader_url))
        report = await wanted.play(rows(16), RunSecrets())
    search = of(report, "search")
    if not search.is_limit_found:
        assert report.own_delay_p95_ms > 50, f"{search}, late by {report.own_delay_p95_ms} ms"
        pytest.skip("this machine is too busy to burden an endpoint")
    assert search.safe_concurrency is not None
    # How near it comes is seen where no machine is busy: in the tests of the reckoning.
    assert 1 <= search.safe_concurrency <= saturation.refuses_above
    refused = [call for call in tool.calls if call.in_flight > saturation.refuses_above]
    assert sum(search.errors_by_code.values()) >= len(refused)
    assert set(search.errors_by_code) <= {FailureCode.RATE_LIMITED, FailureCode.SERVER_ERROR}
    assert search.retries == search.attempts - search.calls
    assert of(report, "judge").errors_by_code == {}
    assert any(f"Set max_concurrency to {search.safe_concurrency}" in sentence for sentence in report.advice)


@pytest.mark.parametrize(
    ("faults", "name", "code", "message"),
    [
        (Only("/tool", Fault(FaultKind.STATUS, status=429)), "search", "rate_limited", "answered 429 to 100%"),
        (Only("/tool", Fault(FaultKind.STATUS, status=500)), "search", "server_error", "answered 5xx"),
        (Only("/tool", Fault(FaultKind.SHAPELESS)), "search", "invalid_reply", '{"output": "..."}'),
        (Only("/tool", Fault(FaultKind.REDIRECT)), "search", "unexpected_status", "final URL"),
        (Only("/grade", Fault(FaultKind.NAN_SCORE)), "judge", "invalid_score", '{"score": 0.5}'),
        (Only("/grade", Fault(FaultKind.STATUS, status=404)), "judge", "rejected", "rejected calls"),
        (Only("/grade", Fault(FaultKind.RESET_BEFORE_HEADERS)), "judge", "connection_reset", "broke the connection"),
    ],
)
async def test_every_kind_of_failure_is_counted_and_explained(
    faults: FaultPlan, name: str, code: str, message: str
) -> None:
    async with LoopbackEndpoint(Customer(faults=faults)) as served:
        wanted = spec(served, rows_per_step=2, retry=RetryBudget(max_retries=0))
        report = await wanted.play(rows(2), SECRETS)
    endpoint = of(report, name)
    assert endpoint.errors_by_code == {FailureCode(code): endpoint.attempts}
    assert endpoint.error_share == 1.0
    assert endpoint.failed_calls == report.excluded_rollouts == 4
    assert report.excluded_share == 1.0
    assert "training would be held" in report.advice[0]
    assert any(message in sentence for sentence in report.advice)


async def test_a_share_of_broken_rollouts_is_excluded_and_the_rest_is_graded() -> None:
    faults = BrokenRollouts(0.4, [Fault(FaultKind.STATUS, status=500)])
    customer = Customer(faults=faults)
    async with LoopbackEndpoint(customer) as served:
        report = await spec(served, rows_per_step=20, retry=RetryBudget(max_retries=0)).play(rows(20), SECRETS)
    assert 0 < report.excluded_rollouts < 40
    assert report.excluded_rollouts + len(customer.grader_bodies) == report.rollouts
    assert of(report, "search").failed_calls == report.excluded_rollouts


async def test_refused_credentials_are_told_and_cost_every_rollout() -> None:
    faults = Only("/tool", Fault(FaultKind.STATUS, status=401))
    async with LoopbackEndpoint(Customer(faults=faults)) as served:
        report = await spec(served).play(rows(4), SECRETS)
    assert report.excluded_rollouts == report.rollouts == 8
    assert of(report, "search").errors_by_code == {FailureCode.UNAUTHORIZED: 8}
    assert any("check its headers (100% of calls)" in sentence for sentence in report.advice)


async def test_nobody_there() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/tool"
        async with LoopbackEndpoint(Customer()) as served:
            wanted = spec(served, rows_per_step=2, retry=RetryBudget(max_retries=0), server_url=url)
            report = await wanted.play(rows(2), SECRETS)
    assert of(report, "search").errors_by_code == {FailureCode.CONNECT_ERROR: 4}
    assert of(report, "search").safe_concurrency is None
    assert of(report, "judge").calls == 0
    assert any("check that it runs" in sentence for sentence in report.advice)


async def test_an_endpoint_that_hangs_is_broken_off_and_said_so() -> None:
    customer = Customer(faults=Only("/tool", Fault(FaultKind.HANG)))
    async with LoopbackEndpoint(customer) as served:
        report = await spec(served, max_s=0.5).play(rows(4), SECRETS)
    assert report.unfinished_rollouts == report.rollouts == 8
    assert report.expected_step_s is None
    assert "8 of 8 rollouts were not finished" in report.advice[0]


async def test_hosts_hear_of_every_rollouts_start_and_end() -> None:
    customer = Customer()
    async with LoopbackEndpoint(customer) as served:
        report = await spec(served, callback_url=served.base_url + HOOK_PATH).play(rows(4), SECRETS)
    # An end that the closing client cut off is told once more, under the same key.
    told = {(body["type"], body["trace_id"]) for body in customer.bodies(HOOK_PATH)}
    graded = {body["trace_id"] for body in customer.grader_bodies}
    assert told == {(kind, trace_id) for kind in ("rollout.started", "rollout.ended") for trace_id in graded}
    assert of(report, "search").calls == 24
    assert of(report, "search (rollout callback)").calls == 16


async def test_endpoint_graders_inside_a_multi_grader_are_called_and_others_are_not() -> None:
    customer = Customer()
    async with LoopbackEndpoint(customer) as served:
        check = StringCheckGrader(name="exact", input="{{sample.output_text}}", reference="x", operation="eq")
        grader = MultiGrader(
            name="both",
            graders={"quality": EndpointGrader(name="q", url=served.grader_url), "exact": check},
            calculate_output="quality + exact",
        )
        secrets = RunSecrets(part_headers={"quality": {"X-Key": "part-secret"}})
        report = await spec(served, grader=grader).play(rows(4), secrets)
    graded = [call for call in customer.calls if call.path == "/grade"]
    assert of(report, "quality").calls == len(graded) == 8
    assert all(call.headers["x-key"] == "part-secret" for call in graded)


async def test_a_grader_of_our_own_is_not_called_and_the_report_says_so() -> None:
    customer = Customer()
    async with LoopbackEndpoint(customer) as served:
        grader = StringCheckGrader(name="exact", input="{{sample.output_text}}", reference="x", operation="eq")
        report = await spec(served, grader=grader).play(rows(4), SECRETS)
    assert customer.grader_bodies == []
    assert [endpoint.name for endpoint in report.endpoints] == ["search"]
    assert any("'exact' (string_check) was not called" in sentence for sentence in report.assumptions)


async def test_rows_without_tools_use_what_the_job_says_of_its_tools() -> None:
    customer = Customer()
    schema = ToolSchema(name="search", parameters=PARAMETERS)
    async with LoopbackEndpoint(customer) as served:
        await spec(served, schema_of_job=schema).play(rows(4, has_tools=False), SECRETS)
    assert len(customer.tool_bodies) == 24


async def test_rows_that_describe_no_tools_are_only_graded() -> None:
    customer = Customer()
    async with LoopbackEndpoint(customer) as served:
        report = await spec(served).play(rows(4, has_tools=False), SECRETS)
    assert (len(customer.tool_bodies), len(customer.grader_bodies)) == (0, 8)
    assert any("was never called" in sentence for sentence in report.advice)


async def test_fewer_rows_than_a_step_has_are_played_again_under_other_ids() -> None:
    customer = Customer()
    async with LoopbackEndpoint(customer) as served:
        report = await spec(served, rows_per_step=8).play(rows(3), SECRETS)
    assert report.rollouts == 16
    assert len({body["trace_id"] for body in customer.grader_bodies}) == 16


async def test_a_rehearsal_without_rows_is_refused() -> None:
    async with LoopbackEndpoint(Customer()) as served:
        with pytest.raises(ValueError, match="a row"):
            await spec(served).play([], SECRETS)


async def test_the_customers_own_cap_holds() -> None:
    customer = Customer(latency_s=0.01)
    async with LoopbackEndpoint(customer) as served:
        check = StringCheckGrader(name="exact", input="x", reference="x", operation="eq")
        await spec(served, rows_per_step=8, max_concurrency=2, grader=check).play(rows(8), SECRETS)
    assert customer.max_in_flight == 2


def test_a_busy_machine_of_ours_is_owned_up_to() -> None:
    report = RehearsalReport(
        rollouts=8,
        excluded_rollouts=0,
        excluded_share=0.0,
        unfinished_rollouts=0,
        unwritten_calls=0,
        wall_s=1.0,
        expected_step_s=1.0,
        own_delay_p95_ms=80.0,
        assumptions=(),
        endpoints=(),
    )
    wanted = spec(LoopbackEndpoint(Customer()))
    told = assumptions(report, wanted.plan, wanted.spec.grader, {})
    assert any("up to 80 ms of its own delay" in sentence for sentence in told)


class Uneven:
    """Every grade fails, and the tool never answers about the first row."""

    def next(self, call: ReceivedCall) -> Fault | None:
        """By path and row."""
        if call.path == "/grade":
            return Fault(FaultKind.STATUS, status=500)
        return Fault(FaultKind.HANG) if call.body and json.loads(call.body)["item"]["answer"] == 0 else None


async def test_grades_that_failed_are_told_although_other_rollouts_hang() -> None:
    async with LoopbackEndpoint(Customer(faults=Uneven())) as served:
        report = await spec(served, max_s=10.0, retry=RetryBudget(max_retries=0)).play(rows(4), SECRETS)
    assert (report.excluded_rollouts, report.unfinished_rollouts) == (6, 2)
    assert of(report, "judge").failed_calls == 6


class ClosedHook(Customer):
    """A customer whose hook refuses."""

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        """500 for the hook."""
        return HttpAnswer(500, b"{}") if call.path == HOOK_PATH else await super().answer(call)


async def test_a_callback_that_fails_costs_the_rollout_and_is_not_the_tools_failure() -> None:
    customer = ClosedHook()
    async with LoopbackEndpoint(customer) as served:
        wanted = spec(served, callback_url=served.base_url + HOOK_PATH, retry=RetryBudget(max_retries=0))
        report = await wanted.play(rows(4), SECRETS)
    assert (report.excluded_rollouts, customer.tool_bodies) == (8, [])
    assert (of(report, "search (rollout callback)").failed_calls, of(report, "search").failed_calls) == (8, 0)


async def test_the_orders_budget_of_tokens_does_not_shorten_the_script() -> None:
    customer = Customer()
    async with LoopbackEndpoint(customer) as served:
        wanted = spec(served)
        scarce = wanted.spec.model_copy(update={"budgets": Budgets(max_tokens=1, max_turns=4)})
        report = await Wanted(scarce, wanted.plan).play(rows(4), SECRETS)
    assert (len(customer.tool_bodies), report.excluded_rollouts) == (24, 0)
