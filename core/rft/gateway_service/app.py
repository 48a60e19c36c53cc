"""The web side of a gateway service: registration, breakers, health, and one POST per kind of call."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from fastapi import FastAPI, Request, Response
from pydantic import ValidationError

from rft.core.base import Record
from rft.egress.drain_pending import DRAIN_S
from rft.egress.endpoint_client import EndpointClient
from rft.egress.failed_calls import FailedCalls
from rft.gateway_service.auth_middleware import OPEN_TO_ALL, AuthMiddleware
from rft.gateway_service.hang_up import unless_gone
from rft.gateway_service.jobs import AttemptBook, Jobs, RegisteredJob, UnknownJob
from rft.gateway_service.settings import ServiceSettings
from rft.gateway_service.shared_egress import SharedEgress
from rft.gateway_service.wire import (
    AS_OWNER,
    CAPS,
    UNKNOWN_JOB,
    Breakers,
    Forgotten,
    JobRegistration,
    NotJson,
    OpenBreaker,
    Problem,
    Refusal,
    ServiceReply,
    decode,
    encode,
)

_log = logging.getLogger(__name__)
SWEEP_S = 60.0
J = TypeVar("J", bound=JobRegistration)
G = TypeVar("G")

Handler: TypeAlias = Callable[[G, bytes], Awaitable[ServiceReply]]
"""One kind of call: from a job's gateway and a request's body to the reply. Raises ValueError for a bad body."""


class ServiceHealth(Record):
    """The service answers."""

    status: str = "ok"
    jobs: int = 0
    """Registered now."""
    calls: int = 0
    """Inside now, waiting ones included."""


@dataclass(frozen=True, slots=True)
class ServiceDefinition(Generic[J, G]):
    """What a service does: the only difference between the tool gateway's and the grader gateway's."""

    title: str
    registration: type[J]
    """What a job is registered with."""
    open_gateway: Callable[[str, J, EndpointClient], G]
    """From job id, registration and client. Raises ValueError for one that cannot be carried out."""
    close_gateway: Callable[[G], Awaitable[None]]
    """The job is over, or its trainer is gone."""
    stop_gateway: Callable[[G], Awaitable[None]]
    """The service stops, or the job has a new gateway: the job goes on."""
    hand_over: Callable[[G, G], None]
    """From the job's gateway until now to its new one, before that one's first call."""
    handlers: Mapping[str, Handler[G]]
    """By the last part of the path."""
    check: Callable[[J], None] = lambda registration: None
    """Before the gateway is opened, in a thread: it may take its time. Raises ValueError as `open_gateway`."""


def create_service(service: ServiceDefinition[J, G], settings: ServiceSettings, shared: SharedEgress) -> FastAPI:
    """The service as an ASGI application; closes `shared` when it stops."""
    jobs = Jobs(_opener(service, shared), service.close_gateway, service.stop_gateway, service.hand_over)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        sweeping = asyncio.create_task(_sweep(jobs))
        yield
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await jobs.aclose()
        await shared.aclose()

    app = FastAPI(title=service.title, version="1", lifespan=lifespan, openapi_url=None, redirect_slashes=False)
    app.add_exception_handler(UnknownJob, _unknown_job)
    app.add_exception_handler(NotJson, _not_json)
    app.add_exception_handler(ValueError, _bad_request)
    token = settings.gateway_token
    app.add_middleware(
        AuthMiddleware,
        token=None if token is None else token.get_secret_value(),
        max_body_bytes=CAPS.request_bytes,
        allowed_hosts=settings.allowed_hosts,
    )
    _add_routes(app, service, jobs, shared)
    return app


async def _sweep(jobs: Jobs[J, G]) -> None:
    """Notice trainers that are gone, even where nobody asks for anything."""
    while True:
        await asyncio.sleep(SWEEP_S)
        jobs.forget_silent()


def _opener(service: ServiceDefinition[J, G], shared: SharedEgress) -> Callable[[str, J], RegisteredJob[J, G]]:
    def open_job(job_id: str, registration: J) -> RegisteredJob[J, G]:
        book, failed_calls, limits = AttemptBook(), FailedCalls(), shared.limits_of_job()
        client = shared.client(
            limits,
            retry=registration.retry,
            signing_secrets=registration.secrets.signing_secrets,
            on_attempt=book.note,
            failed_calls=failed_calls,
        )
        gateway = service.open_gateway(job_id, registration, client)
        return RegisteredJob(
            registration=registration, gateway=gateway, limits=limits, attempts=book, failed_calls=failed_calls
        )

    return open_job


def _add_routes(app: FastAPI, service: ServiceDefinition[J, G], jobs: Jobs[J, G], shared: SharedEgress) -> None:
    """Plain routes: what FastAPI would do for typed parameters costs as much as a call itself."""

    async def health(request: Request) -> Response:
        return _answer(ServiceHealth(jobs=len(jobs), calls=jobs.calls_inside))

    async def register(request: Request) -> Response:
        registration = decode(service.registration, await request.body())
        await asyncio.to_thread(service.check, registration)
        await jobs.register(_job_id(request), registration)
        _log.info("%s: job %s is registered", service.title, _job_id(request))
        return _answer(ServiceReply())

    async def forget(request: Request) -> Response:
        forgotten = await jobs.forget(_job_id(request))
        if forgotten is None:
            raise UnknownJob
        attempts, is_over = forgotten
        if is_over:
            _log.info("%s: job %s is done", service.title, _job_id(request))
        return _answer(Forgotten(attempts=attempts, is_over=is_over))

    async def breakers(request: Request) -> Response:
        job = await jobs.find(_job_id(request))
        not_up = tuple(OpenBreaker.of(change) for change in shared.not_up(job.limits.keys))
        is_owner = request.url.query == AS_OWNER
        told = Breakers(
            open=not_up,
            loads=job.limits.loads(),
            failed_calls=tuple(job.failed_calls.take(time.monotonic())) if is_owner else (),
            attempts=job.attempts.take_left_over() if is_owner else (),
        )
        return _answer(told)

    app.add_route(OPEN_TO_ALL, health, methods=["GET"])
    app.add_route("/v1/jobs/{job_id}", register, methods=["PUT"])
    app.add_route("/v1/jobs/{job_id}", forget, methods=["DELETE"])
    app.add_route("/v1/jobs/{job_id}/breakers", breakers, methods=["GET"])
    for name, handler in service.handlers.items():
        app.add_route(f"/v1/jobs/{{job_id}}/{name}", _endpoint(handler, jobs), methods=["POST"])


def _job_id(request: Request) -> str:
    return request.path_params["job_id"]


def _endpoint(handler: Handler[G], jobs: Jobs[J, G]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        body = await request.body()
        async with jobs.inside(_job_id(request)) as job:
            # Nobody would read what the endpoint says once the caller hangs up.
            reply = await unless_gone(request.receive, _call(handler, job, body))
        return Response(status_code=499) if reply is None else reply

    return endpoint


async def _call(handler: Handler[G], job: RegisteredJob[J, G], body: bytes) -> Response:
    with job.attempts.one_call() as take:
        reply = await handler(job.gateway, body)
        return _answer(reply.model_copy(update={"attempts": take()}))


def _answer(reply: Record) -> Response:
    return Response(encode(reply), media_type="application/json")


async def _unknown_job(request: Request, error: Exception) -> Response:
    message = "this job is not registered here, or was forgotten"
    return _refuse(404, Problem(code=UNKNOWN_JOB, message=message))


async def _bad_request(request: Request, error: Exception) -> Response:
    return _refuse(422, Problem(code="invalid_request", message=_summary(error)))


async def _not_json(request: Request, error: Exception) -> Response:
    return _refuse(400, Problem(code="invalid_json", message=str(error)))


def _summary(error: Exception) -> str:
    """What is wrong, without what was sent: it holds secrets."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return str(error)


def _refuse(status: int, problem: Problem) -> Response:
    return Response(encode(Refusal(error=problem)), status_code=status, media_type="application/json")
