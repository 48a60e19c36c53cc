"""`/v1/dashboard/judges`: the judge's server, the models that graders ask of it, and how that went lately."""

from itertools import islice
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from rft.core.failure import Stage
from rft.core.secret_urls import REDACTED, redact_url
from rft.platform.api.dependencies import AppSettings, Reading
from rft.platform.dashboard.judge_user_repository import judge_users
from rft.platform.dashboard.judge_uses import JudgeUser, UserKind, by_model
from rft.platform.rollouts.ledger_objects import EndpointHealth
from rft.platform.rollouts.service import list_endpoints
from rft.platform.settings import Settings
from rft.platform.store.unit_of_work import UnitOfWork

judges_router = APIRouter(prefix="/dashboard", tags=["dashboard"])
_MOST_USES = 20
_MOST_ASKED = 5
"""Jobs that are looked through for calls of a judge."""


class JudgeServerObject(BaseModel):
    """The OpenAI-compatible server that answers for all judges; configured on the platform's host."""

    base_url: str
    api_key: str | None
    """Redacted; null where none is set."""
    timeout_s: float
    max_concurrency: int


class JudgeUse(BaseModel):
    """What names a judge."""

    kind: UserKind
    id: str
    name: str | None
    status: str | None
    """Of a job."""
    graders: list[str]
    """By their names; a part of several goes by its variable."""


class LatestVerdicts(BaseModel):
    """What the newest job that has asked a judge counted of it, over its latest steps."""

    job_id: str
    job_name: str | None
    graders: list[EndpointHealth]


class JudgeObject(BaseModel):
    """One model that graders ask."""

    model: str
    """As the judge's server calls it."""
    uses: list[JudgeUse]
    """Newest first, up to twenty."""
    uses_left_out: int
    latest: LatestVerdicts | None
    """Null where none of the last jobs has asked it."""


class JudgeList(BaseModel):
    """Those first that something named last."""

    object: Literal["list"] = "list"
    server: JudgeServerObject | None
    """Null where none is configured: graders that need a judge are refused."""
    data: list[JudgeObject]


@judges_router.get("/judges")
async def list_judges(uow: Reading, settings: AppSettings) -> JudgeList:
    """Judge models by what names them: the newest jobs, registered graders and evals."""
    judges = [await _judge(uow, model, users) for model, users in by_model(await judge_users(uow.connection)).items()]
    return JudgeList(server=_server(settings), data=judges)


def _server(settings: Settings) -> JudgeServerObject | None:
    if settings.judge_base_url is None:
        return None
    return JudgeServerObject(
        base_url=redact_url(settings.judge_base_url),
        api_key=None if settings.judge_api_key is None else REDACTED,
        timeout_s=settings.judge_timeout_s,
        max_concurrency=settings.judge_max_concurrency,
    )


async def _judge(uow: UnitOfWork, model: str, users: list[JudgeUser]) -> JudgeObject:
    uses = [
        JudgeUse(kind=user.kind, id=user.id, name=user.name, status=user.status, graders=_graders(user, model))
        for user in users
    ]
    return JudgeObject(
        model=model,
        uses=uses[:_MOST_USES],
        uses_left_out=max(0, len(uses) - _MOST_USES),
        latest=await _latest(uow, model, users),
    )


async def _latest(uow: UnitOfWork, model: str, users: list[JudgeUser]) -> LatestVerdicts | None:
    begun = (user for user in users if user.has_begun)
    # One that has begun may not have asked it yet.
    for job in islice(begun, _MOST_ASKED):
        names = _graders(job, model)
        counted = (await list_endpoints(uow, job.id, from_step=None, to_step=None)).data
        graders = [health for health in counted if health.stage is Stage.GRADER and health.endpoint in names]
        if graders:
            return LatestVerdicts(job_id=job.id, job_name=job.name, graders=graders)
    return None


def _graders(user: JudgeUser, model: str) -> list[str]:
    return [judge.grader for judge in user.judges if judge.model == model]
