"""What a service knows of jobs: for how long, with which secrets, and whose ledger lines are whose."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.attempt import Attempt
from rft.core.failure import Stage
from rft.core.spec import RunSecrets
from rft.egress.endpoint import Endpoint
from rft.egress.limits import Limits
from rft.gateway_service.jobs import AttemptBook, Jobs, RegisteredJob, UnknownJob
from rft.gateway_service.shared_egress import JobLimits
from rft.gateway_service.wire import JobRegistration
from rft.testing.clock import FrozenClock

SECRET = "sesame-open"


@dataclass(slots=True)
class Gateway:
    job_id: str
    closed: int = 0
    """How often, in either way."""
    is_stopped: bool = False
    """Its job went on."""
    predecessor: "Gateway | None" = None


@dataclass(slots=True)
class Office:
    clock: FrozenClock = field(default_factory=FrozenClock)
    opened: list[Gateway] = field(default_factory=list[Gateway])

    def jobs(self) -> Jobs[JobRegistration, Gateway]:
        return Jobs(self._open, self._close, self._stop, self._hand_over, forget_after_s=100.0, now=self.clock.now)

    def _open(self, job_id: str, registration: JobRegistration) -> RegisteredJob[JobRegistration, Gateway]:
        self.opened.append(Gateway(job_id))
        limits = JobLimits(Limits.fixed(4))
        return RegisteredJob(registration=registration, gateway=self.opened[-1], limits=limits, attempts=AttemptBook())

    async def _close(self, gateway: Gateway) -> None:
        gateway.closed += 1

    async def _stop(self, gateway: Gateway) -> None:
        gateway.closed, gateway.is_stopped = gateway.closed + 1, True

    def _hand_over(self, old: Gateway, new: Gateway) -> None:
        assert not old.closed
        new.predecessor = old


def registration(secret: str = SECRET) -> JobRegistration:
    return JobRegistration(secrets=RunSecrets(grader_headers={"X-Key": secret}))


def attempt(number: int) -> Attempt:
    return Attempt(0.0, "trace_a", Stage.TOOL, "echo", "call_1", number, None, 200, 0.1, 0.0, 10, 10)


async def test_a_job_that_nobody_registered_is_unknown() -> None:
    with pytest.raises(UnknownJob):
        await Office().jobs().find("ftjob-1")


async def test_who_is_done_is_told_whether_all_is_over_and_asks_again_while_it_is_not() -> None:
    told, office = asyncio.Event(), Office()

    async def close(gateway: Gateway) -> None:
        await told.wait()

    jobs = Jobs(office._open, close, close, office._hand_over, forget_after_s=100.0, now=office.clock.now)  # pyright: ignore[reportPrivateUsage]
    await jobs.register("ftjob-1", registration())
    (await jobs.find("ftjob-1")).attempts.note(attempt(1))
    assert await jobs.forget("ftjob-1", wait_s=0.0) == ((attempt(1),), False)
    with pytest.raises(UnknownJob):
        await jobs.find("ftjob-1")
    assert await jobs.forget("ftjob-1", wait_s=0.0) == ((), False)
    told.set()
    assert await jobs.forget("ftjob-1") == ((), True)
    assert await jobs.forget("ftjob-1") is None


async def test_how_a_job_ended_is_not_kept_for_ever_for_a_trainer_that_does_not_ask() -> None:
    office = Office()
    jobs = office.jobs()
    await jobs.register("ftjob-1", registration())
    await jobs.forget("ftjob-1", wait_s=0.0)  # Too soon to see the end of the closing.
    await asyncio.sleep(0)
    office.clock.advance(101.0)
    jobs.forget_silent()
    assert await jobs.forget("ftjob-1") is None


async def test_the_same_order_again_keeps_the_gateway_and_another_one_replaces_it() -> None:
    office = Office()
    jobs = office.jobs()
    await jobs.register("ftjob-1", registration())
    await jobs.register("ftjob-1", registration())
    assert len(office.opened) == 1
    await jobs.register("ftjob-1", registration("new-secret"))
    assert [gateway.closed for gateway in office.opened] == [1, 0]
    assert (await jobs.find("ftjob-1")).gateway is office.opened[1]
    assert office.opened[0].is_stopped, "the job goes on"
    assert office.opened[1].predecessor is office.opened[0]


async def test_a_job_unheard_of_is_forgotten_and_one_that_asks_is_not() -> None:
    office = Office()
    jobs = office.jobs()
    await jobs.register("silent", registration())
    await jobs.register("alive", registration())
    for _ in range(3):
        office.clock.advance(60.0)
        await jobs.find("alive")
    await asyncio.sleep(0.0)  # The closing goes on in the background.
    assert [gateway.closed for gateway in office.opened] == [1, 0]
    with pytest.raises(UnknownJob):
        await jobs.find("silent")


@pytest.mark.parametrize("asks", ["find", "register"])
async def test_a_job_that_asks_after_a_long_silence_is_not_told_to_be_over(asks: str) -> None:
    office = Office()
    jobs = office.jobs()
    await jobs.register("silent", registration())
    await jobs.register("asleep", registration())
    office.clock.advance(101.0)
    if asks == "register":
        await jobs.register("asleep", registration())
    assert (await jobs.find("asleep")).gateway is office.opened[1]
    await asyncio.sleep(0.0)  # The closing goes on in the background.
    assert [gateway.closed for gateway in office.opened] == [1, 0]


async def test_a_job_that_is_over_is_closed_and_one_that_its_service_leaves_is_stopped() -> None:
    office = Office()
    jobs = office.jobs()
    callers = Callers(jobs)
    for job_id in ("over", "over with a call inside", "alive", "alive with a call inside"):
        await jobs.register(job_id, registration())
    for job_id in ("over with a call inside", "alive with a call inside"):
        await callers.enter(job_id)
    await jobs.forget("over")
    await jobs.forget("over with a call inside")
    await jobs.aclose()
    while callers.gateways:
        await callers.leave()
    assert [(gateway.closed, gateway.is_stopped) for gateway in office.opened] == [(1, False)] * 2 + [(1, True)] * 2


async def test_the_caps_of_a_job_that_is_done_hold_no_longer() -> None:
    limits = Limits.fixed(50)
    first, second = JobLimits(limits), JobLimits(limits)
    url = "http://127.0.0.1:1/tool"
    limiter = first.limiter(Endpoint("a", Stage.TOOL, url, max_concurrency=3, rate_limit=7.0))
    assert second.limiter(Endpoint("b", Stage.TOOL, url, max_concurrency=9)) is limiter
    assert limiter.limit == 3
    await first.aclose()
    assert limiter.limit == 9
    await second.aclose()
    assert limiter.limit == 50


async def test_attempts_go_with_their_own_call_and_late_ones_to_the_poll() -> None:
    book = AttemptBook()

    async def call(number: int) -> tuple[Attempt, ...]:
        with book.one_call() as take:
            # As the graders that ask several endpoints do.
            await asyncio.gather(*(asyncio.to_thread(book.note, attempt(number)) for _ in range(2)))
            return take()

    taken = await asyncio.gather(*(call(number) for number in range(5)))
    assert [[made.attempt for made in of_call] for of_call in taken] == [[n, n] for n in range(5)]
    assert not book.take_left_over()

    with book.one_call():
        book.note(attempt(7))  # nobody took it: the call was cancelled
        late = asyncio.create_task(asyncio.sleep(0))
        late.add_done_callback(lambda _: book.note(attempt(8)))
    await late
    await asyncio.sleep(0)
    assert [made.attempt for made in book.take_left_over()] == [7, 8]
    assert not book.take_left_over()


def test_an_order_does_not_show_its_secrets() -> None:
    office = Office()
    job = RegisteredJob(
        registration=registration(), gateway=Gateway("x"), limits=JobLimits(Limits.fixed(1)), attempts=AttemptBook()
    )
    assert SECRET not in repr(registration())
    assert SECRET not in repr(job) + repr(office)


STEPS = st.lists(
    st.tuples(st.sampled_from(["register", "change", "enter", "leave", "forget", "wait"]), st.sampled_from("ab")),
    max_size=40,
)


@given(STEPS)
def test_whatever_happens_a_gateway_is_closed_once_and_never_while_a_call_is_inside(
    steps: list[tuple[str, str]],
) -> None:
    asyncio.run(_go_through(steps))


class Callers:
    """Calls that are inside until they are told to end."""

    def __init__(self, jobs: Jobs[JobRegistration, Gateway]) -> None:
        self._jobs = jobs
        self._inside: list[tuple[Gateway, asyncio.Event, asyncio.Task[None]]] = []

    @property
    def gateways(self) -> list[Gateway]:
        return [gateway for gateway, _, _ in self._inside]

    async def enter(self, job_id: str) -> None:
        entered: asyncio.Future[Gateway] = asyncio.get_running_loop().create_future()
        end = asyncio.Event()
        call = asyncio.create_task(self._call(job_id, entered, end))
        await asyncio.wait([entered])
        if not entered.cancelled():
            self._inside.append((entered.result(), end, call))

    async def leave(self) -> None:
        if self._inside:
            _, end, call = self._inside.pop(0)
            end.set()
            await call

    async def _call(self, job_id: str, entered: asyncio.Future[Gateway], end: asyncio.Event) -> None:
        try:
            async with self._jobs.inside(job_id) as job:
                entered.set_result(job.gateway)
                await end.wait()
                assert not job.gateway.closed
        except UnknownJob:
            entered.cancel()


async def _go_through(steps: list[tuple[str, str]]) -> None:
    office = Office()
    jobs = office.jobs()
    callers = Callers(jobs)
    for number, (what, job_id) in enumerate(steps):
        match what:
            case "register":
                await jobs.register(job_id, registration())
            case "change":
                await jobs.register(job_id, registration(f"secret {number}"))
            case "forget":
                await jobs.forget(job_id)
            case "enter":
                await callers.enter(job_id)
            case "leave":
                await callers.leave()
            case _:
                office.clock.advance(101.0)
        assert not any(gateway.closed for gateway in callers.gateways)
    await jobs.aclose()
    while callers.gateways:
        await callers.leave()
    assert [gateway.closed for gateway in office.opened] == [1] * len(office.opened)
