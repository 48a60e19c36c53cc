"""Probing: one look at every URL of an order, so that a typo costs seconds and not a run."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rft.core.failure import Failure, FailureCode, Stage
from rft.egress.guard import AddressPolicy
from rft.egress.probing import probe
from rft.platform.api.errors import BadRequest
from rft.platform.settings import Settings


@dataclass(frozen=True, slots=True)
class Target:
    """One URL to look at."""

    param: str
    """The request's field that holds it."""
    stage: Stage
    name: str
    """The tool's or grader's name."""
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


@dataclass(frozen=True, slots=True)
class Doubtful:
    """A URL at which calls may fail."""

    target: Target
    failure: Failure


async def refuse_unreachable(targets: Sequence[Target], settings: Settings) -> None:
    """For who calls at once: raises BadRequest that names the first target, in order, where nobody answers."""
    for doubtful in await _doubtful(targets, settings):
        if doubtful.failure.code is not FailureCode.ENDPOINT_NOT_FOUND:
            raise _refusal(doubtful)


async def find_doubtful(targets: Sequence[Target], settings: Settings) -> list[Doubtful]:
    """For who calls later: the targets, in order, where nobody answers or nothing may be.

    Raises BadRequest for an address that may not be called at all.
    """
    found = await _doubtful(targets, settings)
    for doubtful in found:
        if doubtful.failure.code is FailureCode.BLOCKED_ADDRESS:
            raise _refusal(doubtful)
    return found


def _refusal(doubtful: Doubtful) -> BadRequest:
    target = doubtful.target
    return BadRequest(
        f"The {target.stage} '{target.name}' cannot be reached: {doubtful.failure.message}",
        param=target.param,
        code=f"{target.stage}_unreachable",
    )


async def _doubtful(targets: Sequence[Target], settings: Settings) -> list[Doubtful]:
    distinct = list({target.url: target for target in reversed(targets)}.values())
    failures = await asyncio.gather(*(_probe(target, settings) for target in distinct))
    by_url = {target.url: failure for target, failure in zip(distinct, failures, strict=True)}
    return [Doubtful(target, failure) for target in targets if (failure := by_url[target.url]) is not None]


async def _probe(target: Target, settings: Settings) -> Failure | None:
    return await probe(
        target.url,
        headers=target.headers,
        timeout_s=settings.probe_timeout_s,
        policy=AddressPolicy.of(settings.egress),
        stage=target.stage,
        name=target.name,
    )
