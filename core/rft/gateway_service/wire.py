"""What a trainer and a gateway service say to each other. Version 1, under `/v1`; both sides are ours.

PUT    /v1/jobs/{job_id}            the job's endpoints, secrets and retry budget; again after every `unknown_job`
POST   /v1/jobs/{job_id}/<operation> one call; the reply carries the ledger lines of its attempts
GET    /v1/jobs/{job_id}/breakers   which of the job's endpoints are down
DELETE /v1/jobs/{job_id}            the job is done; its secrets are forgotten; again until all is told to its customer
GET    /health
"""

import json
from typing import TypeVar

from pydantic import Field

from rft.core.attempt import Attempt
from rft.core.base import Record
from rft.core.endpoint_load import EndpointLoad
from rft.core.failed_call import FailedCall
from rft.core.failure import FailureCode
from rft.core.spec import RetryBudget, RunSecrets
from rft.egress.breaker import BreakerState
from rft.egress.endpoint_client import encode_json
from rft.egress.limits import BreakerChange
from rft.egress.reply import AttemptFailure, SizeCaps

R = TypeVar("R", bound=Record)

CAPS = SizeCaps(request_bytes=64_000_000, reply_bytes=64_000_000)
"""Between trainer and service: whole traces pass, cut to size only on their way to the customer."""
UNKNOWN_JOB = "unknown_job"
AS_OWNER = "as=owner"
"""Query of the process that told the service of the job, and of none of its workers: whoever asks so takes the calls
that went wrong, and the attempts that no answer carried."""


class JobRegistration(Record):
    """Base of what a job is registered with."""

    retry: RetryBudget = RetryBudget()
    secrets: RunSecrets = Field(default_factory=RunSecrets, repr=False)
    """Only those that the service needs."""
    launch: int = 1
    """Which trainer process of the run this is: with a new one, the service ends what the last one left open."""


class NotJson(ValueError):
    """A body that cannot be read at all."""


class Problem(Record):
    """Why a request was not answered."""

    code: str
    message: str
    """For people; never repeats what was sent."""
    type: str = "invalid_request_error"
    param: None = None


class Refusal(Record):
    """Body of every 4xx and 5xx, in the shape of the customer's contract."""

    error: Problem


class ServiceReply(Record):
    """Base of every 200."""

    attempts: tuple[Attempt, ...] = ()
    """What was tried at the customer's endpoints, for the failure ledger."""


class Forgotten(ServiceReply):
    """The job is forgotten. `attempts` are those of calls that nobody waited for any more."""

    is_over: bool = True
    """Whether the customer's servers were told all there was to tell."""


class OpenBreaker(Record):
    """An endpoint that is down, or on trial after having been down."""

    endpoint: str
    """The endpoint's key."""
    state: BreakerState
    code: FailureCode | None = None
    message: str = ""
    status: int | None = None

    @classmethod
    def of(cls, change: BreakerChange) -> "OpenBreaker":
        """As it is sent."""
        last = change.last_failure
        if last is None:
            return cls(endpoint=change.endpoint, state=change.state)
        return cls(
            endpoint=change.endpoint, state=change.state, code=last.code, message=last.message, status=last.status
        )

    def to_change(self) -> BreakerChange:
        """As it was announced in the service."""
        last = None if self.code is None else AttemptFailure(self.code, self.message, status=self.status)
        return BreakerChange(self.endpoint, self.state, last)


class Breakers(ServiceReply):
    """The job's endpoints that are not plainly up. `attempts` are those of calls that nobody waited for any more."""

    open: tuple[OpenBreaker, ...] = ()
    loads: dict[str, EndpointLoad] = Field(default_factory=dict)
    """By the endpoint's key, of those that the job has called: what all jobs together give it to bear."""
    failed_calls: tuple[FailedCall, ...] = ()
    """The last ones of this job that went wrong."""


def encode(record: Record) -> bytes:
    """A record as bytes. Texts and numbers that strict JSON cannot hold (lone surrogates, NaN) come through."""
    return encode_json(record.model_dump(mode="json"))


def decode(kind: type[R], body: bytes) -> R:
    """The record that `encode` wrote. Raises ValueError, NotJson among them."""
    try:
        read = json.loads(body)
    except RecursionError:
        raise NotJson("the body is nested too deeply") from None
    except ValueError as error:
        raise NotJson(f"the body is not JSON: {error}") from None
    return kind.model_validate(read)


def refusal_message(body: bytes) -> tuple[str, str]:
    """Code and message of a refusal; empty for anything else."""
    try:
        problem = decode(Refusal, body).error
    except ValueError:
        return "", ""
    return problem.code, problem.message
