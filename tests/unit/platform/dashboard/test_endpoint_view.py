"""Endpoints over all jobs: one entry per address, whatever jobs call it."""

from typing import Any

from rft.core.endpoint_load import EndpointLoad, LimitReason, NamedLoad
from rft.core.failure import FailureCode, Stage
from rft.core.progress import RoundProgress
from rft.core.rollout import Split
from rft.platform.dashboard.endpoint_view import CallingJob, by_address
from rft.platform.lifecycle.records import JobHold
from rft.platform.rollouts.ledger_objects import CodeShare, EndpointHealth

SEARCH = (Stage.TOOL, "search")
URL = "http://127.0.0.1:9/search"


def health(
    endpoint: str = "search", stage: Stage = Stage.TOOL, *, timeouts: int = 0, refused: int = 0
) -> EndpointHealth:
    by_code = {FailureCode.TIMEOUT: CodeShare(count=timeouts, share=timeouts / 10)} if timeouts else {}
    return EndpointHealth(
        id=f"{stage}:{endpoint}",
        stage=stage,
        endpoint=endpoint,
        from_step=0,
        to_step=1,
        attempts=10,
        errors=timeouts,
        error_share=timeouts / 10,
        errors_by_code=by_code,
        latency_p50_ms=10.0,
        latency_p95_ms=20.0,
        queued_p95_ms=0.0,
        last_failure=None,
        client_errors=refused,
        client_error_share=refused / 10,
        client_errors_by_status={},
        last_client_error=None,
        warning=None,
    )


def job(name: str, *of: EndpointHealth, **more: Any) -> CallingJob:
    fields: dict[str, Any] = {"addresses": {SEARCH: URL}, "round": None, "hold": None, "status": "running"}
    return CallingJob(id=f"ftjob-{name}", name=name, health=of, **(fields | more))


def test_two_jobs_that_call_one_address_are_one_entry() -> None:
    other = job("b", health("find", timeouts=1), addresses={(Stage.TOOL, "find"): URL})
    [entry] = by_address([job("a", health(timeouts=2, refused=3)), other])
    assert (entry.url, entry.names, [one.job_name for one in entry.jobs]) == (URL, ["find", "search"], ["a", "b"])
    assert (entry.attempts, entry.errors, entry.client_errors) == (20, 3, 3)
    assert entry.errors_by_code == {FailureCode.TIMEOUT: 3}


def test_what_is_held_comes_first_and_then_the_most_trouble() -> None:
    addresses = {(Stage.TOOL, name): f"http://127.0.0.1:9/{name}" for name in ("good", "bad", "held")}
    hold = JobHold(endpoint="tool 'held'", stage=Stage.TOOL, reason="down", since=0.0, step=1)
    calls = (health("good"), health("bad", timeouts=5), health("held", timeouts=1))
    entries = by_address([job("a", *calls, addresses=addresses, hold=hold)])
    assert [(entry.names, entry.is_held) for entry in entries] == [
        (["held"], True),
        (["bad"], False),
        (["good"], False),
    ]


def test_calls_in_flight_are_those_of_the_round() -> None:
    now = RoundProgress(
        step=1, split=Split.TRAIN, rollouts=8, ended=0, calling={"search": 5}, queued={"search": 7}, grading=2
    )
    entries = by_address([job("a", health(), health("judge", Stage.GRADER), round=now)])
    told = {entry.names[0]: (entry.in_flight, entry.queued) for entry in entries}
    assert told == {"search": (5, 5), "judge": (2, 0)}


def test_graders_of_one_job_have_their_own_calls_in_flight() -> None:
    now = RoundProgress(step=1, split=Split.TRAIN, rollouts=8, ended=0, grading=7)
    load = EndpointLoad(
        limit=12, reason=LimitReason.SET, changed_at=5.0, in_flight=3, queued=2, calls_per_s=0.5, breaker="closed"
    )
    told = NamedLoad(stage=Stage.GRADER, endpoint="judge", is_shared=False, load=load)
    graders = (health("judge", Stage.GRADER), health("style", Stage.GRADER))
    entries = by_address([job("a", *graders, round=now, loads=(told,))])
    assert {one.names[0]: (one.in_flight, one.queued) for one in entries} == {"judge": (5, 2), "style": (0, 0)}
    assert [one.in_flight for one in by_address([job("a", *graders, loads=(told,))])] == [0, 0]


def test_a_grader_with_two_names_at_one_address_counts_once_per_job() -> None:
    now = RoundProgress(step=1, split=Split.TRAIN, rollouts=8, ended=0, grading=7)
    names = (health("part_1", Stage.GRADER), health("style", Stage.GRADER))
    addresses = {(Stage.GRADER, name): "http://127.0.0.1:9/style" for name in ("part_1", "style")}
    [entry] = by_address([job(name, *names, round=now, addresses=addresses) for name in ("a", "b")])
    assert (len(entry.jobs), entry.in_flight) == (4, 14)


def test_a_job_tells_what_its_own_tool_is_given_to_bear() -> None:
    load = EndpointLoad(
        limit=12, reason=LimitReason.SLOWER, changed_at=5.0, in_flight=3, queued=1, calls_per_s=0.5, breaker="closed"
    )
    told = NamedLoad(stage=Stage.TOOL, endpoint="search", is_shared=True, load=load)
    entries = by_address([job("a", health(), health("judge", Stage.GRADER), loads=(told,))])
    by_name = {entry.names[0]: entry.jobs[0].load for entry in entries}
    found = by_name["search"]
    assert found is not None
    assert (found.limit, found.why, found.is_shared) == (
        12,
        "lowered, since with more calls answers only came later",
        True,
    )
    assert by_name["judge"] is None


def test_an_endpoint_without_a_known_address_goes_by_its_name() -> None:
    [entry] = by_address([job("a", health(), addresses={})])
    assert (entry.url, entry.names) == (None, ["search"])
