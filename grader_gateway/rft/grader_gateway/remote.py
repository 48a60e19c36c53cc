"""Graders as a trainer sees them when a service does the grading. The same duck types as `grader`."""

import logging
from collections.abc import Callable, Mapping, Sequence

from rft.core.attempt import Attempt
from rft.core.base import JsonObject
from rft.core.endpoint_load import EndpointLoad
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.graders import GraderSpec, JudgeServer
from rft.core.response_format import ResponseFormat
from rft.core.spec import RetryBudget, RunSecrets
from rft.egress.failed_calls import FailedCalls
from rft.egress.limits import BreakerChange
from rft.gateway_service.connection import Listener, ServiceConnection
from rft.grader_gateway.answer_format import Misfits
from rft.grader_gateway.service_wire import (
    GRADES,
    RANKS,
    GradeReply,
    GradeRequest,
    GraderJob,
    RankReply,
    RankRequest,
)

_log = logging.getLogger(__name__)


class RemoteGraderGateway:
    """Has the rollouts of one job judged by a grader gateway service. Close it when the job is done.

    It is a `Grader`, and for graders that rank groups a `GroupGrader`.
    """

    def __init__(self, connection: ServiceConnection, name: str, *, misfits: Misfits | None = None) -> None:
        """`misfits`: None where any answer fits."""
        self._connection, self._name, self._misfits = connection, name, misfits

    @classmethod
    def open(
        cls,
        url: str,
        *,
        grader: GraderSpec,
        secrets: RunSecrets,
        judge: JudgeServer | None = None,
        response_format: ResponseFormat | None = None,
        job_id: str,
        retry: RetryBudget | None = None,
        on_attempt: Callable[[Attempt], None] | None = None,
        on_change: Callable[[BreakerChange], None] | None = None,
        failed_calls: FailedCalls | None = None,
        launch: int = 1,
    ) -> "RemoteGraderGateway":
        """A job's grader at the service with this base URL; it is asked for the first time by the first grade.

        Raises ValueError for a `response_format` whose schema is none.
        """
        needed = RunSecrets(
            grader_headers=secrets.grader_headers,
            part_headers=secrets.part_headers,
            signing_secrets=secrets.signing_secrets,
            judge_api_key=secrets.judge_api_key,
        )
        registration = GraderJob(
            grader=grader,
            judge=judge,
            response_format=response_format,
            retry=retry or RetryBudget(),
            secrets=needed,
            launch=launch,
        )
        connection = ServiceConnection(
            "grader gateway",
            url,
            token=secrets.gateway_token,
            job_id=job_id,
            registration=registration,
            listener=Listener(on_attempt, on_change, failed_calls),
        )
        return cls(connection, grader.name, misfits=Misfits.of(grader, response_format))

    @property
    def loads(self) -> Mapping[str, EndpointLoad]:
        """By endpoint key, as the service told last: of all jobs together."""
        return self._connection.loads

    async def keep_registered(self) -> Failure | None:
        """Let the service know the job, for grades that other processes ask for."""
        return await self._connection.keep_registered()

    async def __aenter__(self) -> "RemoteGraderGateway":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Tell the service that the job is done and close all connections."""
        await self._connection.aclose()

    async def grade(self, trace: FinishedTrace, *, item: JsonObject, trace_id: str) -> Grade | Failure:
        """The verdict on one finished rollout, or why there is none. Raises only on cancellation."""
        try:
            request = GradeRequest(trace=trace, item=item, trace_id=trace_id)
            reply = await self._connection.call(GRADES, request, GradeReply)
        except Exception as error:
            return self._broken(error, trace_id)
        return reply.outcome if isinstance(reply, GradeReply) else reply

    def standing_grade(self, trace: FinishedTrace) -> Grade | None:
        """The grade of an answer that does not fit, whoever does not answer; else None. Never raises."""
        return None if self._misfits is None else self._misfits.standing_grade(trace)

    async def rank(
        self, traces: Sequence[FinishedTrace], *, item: JsonObject, trace_ids: Sequence[str]
    ) -> list[Grade] | Failure:
        """One grade per trace, in order, or why the whole group has none. Raises only on cancellation."""
        try:
            request = RankRequest(traces=tuple(traces), item=item, trace_ids=tuple(trace_ids))
            reply = await self._connection.call(RANKS, request, RankReply)
        except Exception as error:
            return self._broken(error, ", ".join(trace_ids))
        outcome = reply.outcome if isinstance(reply, RankReply) else reply
        return outcome if isinstance(outcome, Failure) else list(outcome)

    def _broken(self, error: Exception, trace_id: str) -> Failure:
        _log.exception("the grade of %s broke on our side", trace_id)
        message = f"grader {self._name!r} could not be called by us ({type(error).__name__}: {error})"
        return Failure(
            stage=Stage.GRADER, code=FailureCode.INTERNAL_ERROR, message=message, endpoint=self._name, attempts=0
        )
