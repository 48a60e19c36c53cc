"""Regrades are ordered here and worked on beside the requests of this process; one that dies with it is `failed`."""

import secrets
import time

from rft.core.base import JsonObject
from rft.core.ids import public_id
from rft.platform.api.dependencies import Services
from rft.platform.api.errors import BadRequest, NotFound
from rft.platform.api.pagination import ListPage, to_page, unknown_cursor
from rft.platform.jobs.repository import JobRepository
from rft.platform.jobs.service import expect_job, find_job, found_job
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.owner import new_owner
from rft.platform.orders.grader_sources import refuse_bad_sources
from rft.platform.orders.grader_specification import (
    grader_targets,
    refuse_unfillable_templates,
    refuse_without_judge,
    secrets_of_grader,
    to_grader_spec,
    with_name,
)
from rft.platform.orders.probing import refuse_unreachable
from rft.platform.orders.redaction import redacted
from rft.platform.registry.resolution import resolve_grader
from rft.platform.regrades.objects import RegradeObject, to_regrade_object
from rft.platform.regrades.repository import RegradeRepository, RegradeRow, Selection
from rft.platform.regrades.running import LEASE_TTL_S, Work, work_on
from rft.platform.regrades.schemas import RegradeCreate
from rft.platform.store.unit_of_work import UnitOfWork, unit_of_work

MAX_UNFINISHED = 16
_PARAM = "grader"


async def create_regrade(services: Services, job_id: str, order: RegradeCreate) -> RegradeObject:
    """Check the order, write the row, begin. Raises NotFound, BadRequest."""
    async with unit_of_work(services.database, services.enqueuer) as uow:
        job = await find_job(uow, job_id)
        wished = await resolve_grader(uow.connection, services.secret_box, order.grader, param=_PARAM)
    refuse_without_judge(wished, services.settings, param=_PARAM)
    refuse_unfillable_templates(wished, param=_PARAM)
    await refuse_bad_sources(wished, param=_PARAM)
    await refuse_unreachable(grader_targets(wished, _PARAM), services.settings)
    id_ = public_id("regrade-", secrets.token_bytes(24))
    grader = with_name(wished, f"grader-{id_[-4:]}")
    shown = redacted(grader.model_dump(mode="json", exclude_unset=True))
    assert isinstance(shown, dict), "masking keeps the shape"
    wanted = Selection(split=order.split, steps=None if order.steps is None else tuple(order.steps), limit=order.limit)
    asked_at = time.monotonic()
    async with unit_of_work(services.database, services.enqueuer) as uow:
        found_job(await JobRepository(uow.connection).lock(job_id), job_id)  # It may be deleted by now.
        row, lease = await _insert(uow, id_, job_id, shown, wanted)
    spec, own = to_grader_spec(grader, services.settings), secrets_of_grader(grader)
    work = Work(lease=lease, asked_at=asked_at, job=job, spec=spec, secrets=own, wanted=wanted)
    services.background.start(work_on(services, work), name=id_)
    return to_regrade_object(row)


async def _insert(
    uow: UnitOfWork, id_: str, job_id: str, grader: JsonObject, wanted: Selection
) -> tuple[RegradeRow, Lease]:
    regrades = RegradeRepository(uow.connection)
    await regrades.fail_expired()
    if await regrades.unfinished() >= MAX_UNFINISHED:
        raise BadRequest(f"{MAX_UNFINISHED} regrades are under way; wait for one of them.", code="too_many_regrades")
    return await regrades.insert(id_, job_id, grader, wanted, owner=new_owner(), ttl_s=LEASE_TTL_S)


async def find_regrade(uow: UnitOfWork, job_id: str, regrade_id: str) -> RegradeObject:
    """One regrade. Raises NotFound."""
    await expect_job(uow, job_id)
    regrades = RegradeRepository(uow.connection)
    await regrades.fail_expired()
    row = await regrades.get(job_id, regrade_id)
    if row is None:
        raise NotFound(f"No such regrade: {regrade_id}", param="regrade_id", code="not_found")
    return to_regrade_object(row)


async def list_regrades(uow: UnitOfWork, job_id: str, *, after: str | None, limit: int) -> ListPage[RegradeObject]:
    """One page of a job's regrades, newest first. Raises NotFound, BadRequest."""
    await expect_job(uow, job_id)
    regrades = RegradeRepository(uow.connection)
    await regrades.fail_expired()
    if after is not None and await regrades.get(job_id, after) is None:
        raise unknown_cursor(after)
    rows = await regrades.page(job_id, after=after, limit=limit + 1)
    return to_page([to_regrade_object(row) for row in rows], limit=limit)
