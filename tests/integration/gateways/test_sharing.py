"""One service, several jobs: one limit per endpoint, fair to all, and everybody hears when it is down."""

import asyncio

from rft.core.endpoint_load import LimitReason
from rft.core.failure import FailureCode
from rft.core.spec import RetryBudget
from rft.egress.breaker import BreakerState
from rft.egress.limits import BreakerChange
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.loopback import LoopbackEndpoint
from tests.integration.gateways.conftest import Town
from tests.shared.free_port import free_port
from tests.shared.waiting import until


async def calls_inside(town: Town, service_url: str, count: int) -> None:
    """Until so many calls are in the service, waiting or under way."""

    async def is_reached() -> bool:
        return f'"calls":{count}'.encode() in (await town.ask("GET", f"{service_url}/health")).body

    await until(is_reached, "the limit to be reached")


async def test_two_jobs_share_one_limit_and_the_small_one_does_not_wait_behind_the_large_one(town: Town) -> None:
    town.endpoint.gate.clear()
    service = town.run(town.service(max_calls_in_flight=4))
    large, small = await town.trainer(service.url), await town.trainer(service.url, job_id="ftjob-2")
    calls = [asyncio.create_task(large.call(number)) for number in range(40)]
    await calls_inside(town, service.url, 40)
    calls += [asyncio.create_task(small.call(number)) for number in range(100, 108)]
    await calls_inside(town, service.url, 48)
    town.endpoint.gate.set()
    assert all(result.output == "hi" for result in await asyncio.gather(*calls))
    assert town.endpoint.max_in_flight == 4
    order = [b"trace_10" in received.body and b'trace_10"' not in received.body for received in town.endpoint.calls]
    assert sum(order) == 8
    assert max(place for place, is_small in enumerate(order) if is_small) < 4 + 2 * 8 + 4


async def test_a_jobs_own_cap_holds_until_the_job_is_done(town: Town) -> None:
    service = town.run(town.service(max_calls_in_flight=4))
    capped, other = (
        await town.trainer(service.url, max_concurrency=1),
        await town.trainer(service.url, job_id="ftjob-2"),
    )
    await asyncio.gather(*(capped.call(number) for number in range(6)), *(other.call(number) for number in range(6)))
    assert town.endpoint.max_in_flight == 1
    await capped.gateway.aclose()
    town.endpoint.gate.clear()
    calls = [asyncio.create_task(other.call(number)) for number in range(8)]
    await town.endpoint.until(lambda endpoint: endpoint.in_flight == 4)
    town.endpoint.gate.set()
    await asyncio.gather(*calls)


async def test_an_outage_is_told_to_all_jobs_on_the_endpoint_and_its_end_too(town: Town) -> None:
    town.server = down = LoopbackEndpoint(town.endpoint, port=free_port())
    service = town.run(town.service(has_adaptive_limits=True))
    retry = RetryBudget(max_retries=9, first_wait_s=0.001)
    first = await town.trainer(service.url, retry=retry)
    second = await town.trainer(service.url, job_id="ftjob-2", retry=retry)
    calls = [asyncio.create_task(trainer.call(number)) for number in range(8) for trainer in (first, second)]
    await until(lambda: bool(first.changes) and bool(second.changes), "word of the breaker")
    for trainer in (first, second):
        change = trainer.changes[0]
        assert change.endpoint == down.tool_url
        assert change.state is not BreakerState.CLOSED
        assert change.last_failure is not None
        assert change.last_failure.code is FailureCode.CONNECT_ERROR
    async with LoopbackEndpoint(town.endpoint, port=down.port):
        assert all(result.output == "hi" for result in await asyncio.gather(*calls))
        await until(lambda: is_over(first.changes) and is_over(second.changes), "the end of the outage")


def is_over(changes: list[BreakerChange]) -> bool:
    return changes[-1].state is BreakerState.CLOSED


async def test_a_job_hears_nothing_of_endpoints_that_are_not_its_own(town: Town) -> None:
    gone = LoopbackEndpoint(ScriptedEndpoint(), port=free_port())
    service = town.run(town.service(has_adaptive_limits=True))
    healthy = await town.trainer(service.url)
    assert (await healthy.call()).output == "hi"
    first_url, town.server = town.server.tool_url, gone
    unlucky = await town.trainer(service.url, job_id="ftjob-2", retry=RetryBudget(max_retries=0))
    calls = [asyncio.create_task(unlucky.call(number)) for number in range(16)]
    await until(lambda: bool(unlucky.changes), "word of the breaker")
    assert b"ftjob" not in (await town.ask("GET", f"{service.url}/v1/jobs/ftjob-1/breakers")).body
    assert b'"open":[]' in (await town.ask("GET", f"{service.url}/v1/jobs/ftjob-1/breakers")).body
    await until(lambda: bool(healthy.gateway.loads) and bool(unlucky.gateway.loads), "word of what the endpoints bear")
    [(key, load)] = healthy.gateway.loads.items()
    assert (key, load.breaker, load.reason, load.in_flight) == (first_url, "closed", LimitReason.APPROACHING, 0)
    assert load.calls_per_s > 0
    [(key, load)] = unlucky.gateway.loads.items()
    assert (key, load.breaker, load.reason, load.limit) == (gone.tool_url, "open", LimitReason.DOWN, 0)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert not healthy.changes
