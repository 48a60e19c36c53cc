"""Probing: one knock at every URL of a new job, so that a typo costs seconds and not a run."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rft.core.failure import Failure, Stage
from rft.egress.client import probe
from rft.egress.guard import AddressPolicy
from rft.platform.api.errors import BadRequest
from rft.platform.settings import Settings


@dataclass(frozen=True, slots=True)
class Target:
    """One URL to knock at."""

    param: str
    """The request's field that holds it."""
    stage: Stage
    name: str
    """The tool's or grader's name."""
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


async def refuse_unreachable(targets: Sequence[Target], settings: Settings) -> None:
    """Any HTTP answer is fine; raises BadRequest that names the first target, in order, where nobody answers."""
    distinct = list({target.url: target for target in reversed(targets)}.values())
    failures = await asyncio.gather(*(_probe(target, settings) for target in distinct))
    by_url = {target.url: failure for target, failure in zip(distinct, failures, strict=True)}
    for target in targets:
        failure = by_url[target.url]
        if failure is not None:
            raise BadRequest(
                f"The {target.stage} '{target.name}' cannot be reached: {failure.message}",
                param=target.param,
                code=f"{target.stage}_unreachable",
            )


async def _probe(target: Target, settings: Settings) -> Failure | None:
    return await probe(
        target.url,
        headers=target.headers,
        timeout_s=settings.probe_timeout_s,
        policy=AddressPolicy(
            allow_loopback=settings.allow_loopback, allow_cidrs=tuple(str(network) for network in settings.allow_cidrs)
        ),
        stage=target.stage,
        name=target.name,
    )
