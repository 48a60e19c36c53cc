"""From a specification to clients, graders and hold: the right form of each, and nobody blamed under a wrong name."""

import asyncio
from typing import Any

import pytest

from rft.chat.hermes import HermesChatFormat
from rft.core.egress_settings import EgressSettings
from rft.core.endpoint_load import LimitReason, NamedLoad
from rft.core.errors import RunFailed
from rft.core.events import HoldBegan, HoldEnded
from rft.core.failure import FailureCode, Stage
from rft.core.graders import (
    EndpointGrader,
    GraderSpec,
    JudgeServer,
    MultiGrader,
    RulerGrader,
    StringCheckGrader,
)
from rft.core.hyperparameters import ResolvedHyperparameters
from rft.core.spec import HoldRule, RunSecrets, RunSpec, ToolServer
from rft.egress.breaker import BreakerState
from rft.egress.endpoint import Endpoint, endpoint_key
from rft.egress.limits import BreakerChange
from rft.egress.reply import AttemptFailure
from rft.egress.signing import new_secret
from rft.grader_gateway.gateway import HttpGraderGateway
from rft.grader_gateway.remote import RemoteGraderGateway
from rft.rollouts.connections import open_client, open_connections
from rft.rollouts.deadlines import Deadlines
from rft.rollouts.known_endpoints import known_endpoints
from rft.rollouts.wiring import open_hold, rollout_setup
from rft.testing.samplers import ScriptedSampler
from rft.testing.samplers_time import run_in_virtual_time
from rft.tool_gateway.gateway import HttpToolGateway
from rft.tool_gateway.remote import RemoteToolGateway

GRADER = EndpointGrader(name="letters", url="http://127.0.0.1:9/grade")
JUDGE = JudgeServer(base_url="http://127.0.0.1:8/v1")
RULER = RulerGrader(name="ruler", model="judge-1")
EXACT = StringCheckGrader(name="exact", input="a", reference="a", operation="eq")


def spec(grader: GraderSpec = GRADER, **more: Any) -> RunSpec:
    return RunSpec(
        job_id="ftjob-1", seed=7, base_model="m", model_name="m", grader=grader,
        hyperparameters=ResolvedHyperparameters(
            n_epochs=1, batch_size=2, learning_rate_multiplier=1.0, compute_multiplier=1.0, eval_interval=2,
            eval_samples=1, group_size=4, steps=1,
        ),
        tools=(
            ToolServer(name="search", server_url="http://127.0.0.1:9/tool?key=1", callback_url="http://127.0.0.1:9/host"),
            ToolServer(name="lookup", server_url="http://127.0.0.1:9/tool"),
        ),
    ).model_copy(update=more)  # fmt: skip


async def kinds(wanted: RunSpec) -> tuple[type, type, type]:
    connections = await open_connections(wanted, RunSecrets())
    await connections.aclose()
    return type(connections.tools), type(connections.grader), type(connections.group_grader)


async def test_calls_are_made_here_unless_a_gateway_service_is_named() -> None:
    assert await kinds(spec()) == (HttpToolGateway, HttpGraderGateway, type(None))
    served: dict[str, Any] = {"tool_gateway_url": "http://127.0.0.1:7", "grader_gateway_url": "http://127.0.0.1:6"}
    assert await kinds(spec(**served)) == (RemoteToolGateway, RemoteGraderGateway, type(None))
    _, single, group = await kinds(spec(RULER, judge=JUDGE))
    assert single is type(None)
    assert hasattr(group, "rank")
    assert await kinds(spec(RULER, judge=JUDGE, **served)) == (RemoteToolGateway, type(None), RemoteGraderGateway)


async def test_a_judge_grader_without_a_judge_fails_the_run_in_words() -> None:
    with pytest.raises(RunFailed, match="needs a judge server") as failed:
        await open_connections(spec(RULER), RunSecrets())
    assert (failed.value.code, failed.value.param) == ("unusable_grader", "method.reinforcement.grader")


@pytest.mark.parametrize(
    ("wanted", "whose"),
    [
        ({"tools": (ToolServer(name="t", server_url="http://127.0.0.1:9/?key=**********"),)}, "tool"),
        (
            {"tools": (ToolServer(name="t", server_url="http://a/", callback_url="http://127.0.0.1:9/?k=**********"),)},
            "tool",
        ),
        ({"grader": EndpointGrader(name="g", url="http://127.0.0.1:9/?key=**********")}, "grader"),
    ],
)
async def test_a_url_whose_secret_did_not_come_along_is_never_called(wanted: dict[str, Any], whose: str) -> None:
    with pytest.raises(RunFailed, match=f"URL of a {whose}") as failed:
        await open_connections(spec(**wanted), RunSecrets())
    assert failed.value.code == "secret_url_missing"


async def test_there_is_a_host_only_where_a_tool_wants_to_be_told() -> None:
    connections = await open_connections(spec(), RunSecrets())
    await connections.aclose()
    assert connections.host is not None
    quiet = await open_connections(
        spec(tools=(ToolServer(name="search", server_url="http://127.0.0.1:9/"),)), RunSecrets()
    )
    await quiet.aclose()
    assert quiet.host is None


async def test_calls_are_signed_where_there_are_secrets() -> None:
    assert open_client(spec(), RunSecrets()).signer is None
    assert open_client(spec(), RunSecrets(signing_secrets=(new_secret(b"a" * 32),))).signer is not None


def test_the_runs_size_caps_hold_for_its_calls() -> None:
    caps = open_client(spec(egress=EgressSettings(max_call_bytes=2_000, max_reply_bytes=3_000)), RunSecrets()).http.caps
    assert (caps.request_bytes, caps.reply_bytes) == (2_000, 3_000)


TOOL = Endpoint("search", Stage.TOOL, "http://127.0.0.1:9/tool")


def test_limits_follow_the_endpoint_only_where_the_run_says_so() -> None:
    async def main() -> tuple[int, int]:
        fixed = open_client(spec(egress=EgressSettings(max_calls_in_flight=7)), RunSecrets()).limits.limiter(TOOL)
        adaptive = open_client(
            spec(egress=EgressSettings(max_calls_in_flight=7, has_adaptive_limits=True)), RunSecrets()
        ).limits.limiter(TOOL)
        for limiter in (fixed, adaptive):
            for _ in range(30):
                await limiter.enter()
                limiter.learn(AttemptFailure(FailureCode.CONNECT_ERROR, "is gone"), latency_s=0.1)
                limiter.leave()
                if limiter.state is not BreakerState.CLOSED:
                    break
        return fixed.limit, adaptive.limit

    assert run_in_virtual_time(main()) == (7, 0), "a breaker opens where limits are adaptive"


def held_for(wanted: RunSpec, secrets: RunSecrets, change: BreakerChange) -> HoldBegan:
    told: list[HoldBegan | HoldEnded] = []

    async def main() -> None:
        hold = open_hold(wanted, secrets, Deadlines(), told.append)
        assert hold is not None
        async with hold.round(1):
            hold.on_change(change)
            await asyncio.sleep(10.0)

    run_in_virtual_time(main())
    assert isinstance(told[0], HoldBegan)
    return told[0]


def broken(url: str, words: str = "answered 503") -> BreakerChange:
    return BreakerChange(endpoint_key(url), BreakerState.OPEN, AttemptFailure(FailureCode.SERVER_ERROR, words))


def test_without_a_rule_nothing_is_held() -> None:
    assert open_hold(spec(), RunSecrets(), Deadlines(), print) is None


MULTI = MultiGrader(name="sum", graders={"a": GRADER, "b": EXACT}, calculate_output="a + b")


@pytest.mark.parametrize(
    ("grader", "url", "stage", "words"),
    [
        (GRADER, "http://127.0.0.1:9/tool", Stage.TOOL, "tool 'search' and tool 'lookup'"),
        (GRADER, "http://127.0.0.1:9/host", Stage.TOOL, "the rollout callback of tool 'search'"),
        (GRADER, GRADER.url, Stage.GRADER, "grader 'letters'"),
        (MULTI, GRADER.url, Stage.GRADER, "grader 'letters'"),
        (RULER, "http://127.0.0.1:8/v1/chat/completions", Stage.GRADER, "the judge server"),
        (GRADER, "http://127.0.0.1:1/", Stage.PLATFORM, "endpoint http://127.0.0.1:1/"),
    ],
)
def test_a_hold_names_who_is_behind_the_endpoint(grader: GraderSpec, url: str, stage: Stage, words: str) -> None:
    began = held_for(spec(grader, judge=JUDGE, hold=HoldRule()), RunSecrets(), broken(url))
    assert (began.stage, began.endpoint) == (stage, words)
    assert began.reason == f"{words} at {url} answered 503"


def test_what_a_hold_says_shows_no_secret() -> None:
    secrets = RunSecrets(
        tool_headers={"search": {"X-Key": "alpha-secret"}, "lookup": {"X-Key": "beta-secret"}},
        grader_headers={"Authorization": "Bearer gamma-secret"},
        part_headers={"a": {"X-Key": "delta-secret"}},
        judge_api_key="omega-secret",
    )
    words = "answered 503: alpha-secret beta-secret gamma-secret delta-secret omega-secret"
    urls: list[tuple[GraderSpec, str, tuple[str, ...]]] = [
        (GRADER, "http://127.0.0.1:9/tool", ("alpha", "beta")),
        (GRADER, "http://127.0.0.1:9/host", ("alpha",)),
        (GRADER, GRADER.url, ("gamma",)),
        (MULTI, GRADER.url, ("delta",)),
        (RULER, "http://127.0.0.1:8/v1/chat/completions", ("omega",)),
    ]
    for grader, url, hidden in urls:
        began = held_for(spec(grader, judge=JUDGE, hold=HoldRule()), secrets, broken(url, words))
        assert not any(f"{name}-secret" in repr(began) for name in hidden), url


def test_who_shares_an_endpoint_is_known_once() -> None:
    known = known_endpoints(spec(), RunSecrets())
    assert sorted(known) == ["http://127.0.0.1:9/grade", "http://127.0.0.1:9/host", "http://127.0.0.1:9/tool"]


def test_what_was_called_tells_what_it_is_given_to_bear() -> None:
    """Tools behind one address share it; what was never called tells nothing."""

    async def main() -> tuple[NamedLoad, ...]:
        connections = await open_connections(spec(), RunSecrets())
        try:
            assert connections.loads() == ()
            connections.client.limits.limiter(Endpoint(name="any", stage=Stage.TOOL, url="http://127.0.0.1:9/tool"))
            return connections.loads()
        finally:
            await connections.aclose()

    told = run_in_virtual_time(main())
    assert [(one.stage, one.endpoint, one.is_shared) for one in told] == [
        (Stage.TOOL, "search", False),
        (Stage.TOOL, "lookup", False),
    ]
    assert {(one.load.limit, one.load.reason) for one in told} == {(512, LimitReason.SET)}


@pytest.mark.parametrize("has_tools", [True, False])
async def test_rollouts_of_a_job_without_tools_end_with_their_first_calls(
    chat_format: HermesChatFormat, *, has_tools: bool
) -> None:
    wanted = spec() if has_tools else spec(tools=())
    connections = await open_connections(wanted, RunSecrets())
    sampler = ScriptedSampler(chat_format.tokenizer, lambda _, prompt: prompt)
    assert rollout_setup(wanted, connections, sampler, chat_format).has_tool_servers is has_tools
    await connections.aclose()
