"""A run whose rollouts are run by workers: what they are told of it, and the way to them."""

from collections.abc import Callable
from functools import partial

from rft.core.attempt import Attempt
from rft.core.errors import RunFailed, RunPaused
from rft.core.events import Notice, StillWaiting
from rft.core.spec import RunSecrets, RunSpec
from rft.grader_gateway.remote import RemoteGraderGateway
from rft.rollouts.connections import CustomerConnections
from rft.rollouts.shards.executor import ShardedExecutor
from rft.rollouts.shards.http_inbox import HttpTrainerInbox, RunAddress, open_inbox_http
from rft.rollouts.shards.told import ShardNotices
from rft.rollouts.shards.wire import RunForWorkers
from rft.rollouts.shards.worker_stages import WorkerStages
from rft.tool_gateway.remote import RemoteToolGateway
from rft.trainer.run_chat import RunChat


class GivenOut:
    """The executor of such a run, and what has to be closed with it."""

    def __init__(
        self,
        spec: RunSpec,
        secrets: RunSecrets,
        *,
        tell: Callable[[Notice | StillWaiting], None],
        on_attempt: Callable[[Attempt], None],
    ) -> None:
        """`spec`: as it stands in the run's directory, without secrets. Raises RunFailed."""
        # Imported late: Celery takes half a second, and most runs do not need it.
        from rft.rollouts.celery_executor import CeleryHints

        if spec.rollout_workers is None or secrets.broker_url is None or secrets.inbox_token is None:
            raise RunFailed("no_rollout_workers", "This run was launched without a queue to rollout workers.")
        self._spec = spec
        address = RunAddress(spec.rollout_workers.platform_url, spec.job_id, secrets.inbox_token)
        self._http = open_inbox_http()
        self._hints = CeleryHints(secrets.broker_url, address)
        self._notices = ShardNotices(tell)
        self._inbox = HttpTrainerInbox(address, self._http)
        self.stages = WorkerStages(self._inbox)
        self.executor = ShardedExecutor(self._inbox, self._hints, self._notices, on_attempt)

    async def open(self, run_chat: RunChat, *, max_context_tokens: int, connections: CustomerConnections) -> None:
        """Let workers and gateway services know the run. Raises RunPaused where a gateway cannot be reached."""
        for gateway in (connections.tools, connections.grader, connections.group_grader):
            if isinstance(gateway, RemoteToolGateway | RemoteGraderGateway):
                failure = await gateway.keep_registered()
                if failure is not None:
                    raise RunPaused("gateway_down", failure.message)
        run = RunForWorkers(
            spec=run_chat.with_thought_limit(self._spec),
            max_context_tokens=max_context_tokens,
            chat=run_chat.saved.record,
            chat_template=run_chat.saved.template,
        )
        await self._notices.platform.until_done(partial(self._inbox.announce, run.model_dump_json()))
        self.stages.start()

    async def aclose(self) -> None:
        """Workers give up what is out."""
        await self.stages.aclose()
        await self.executor.aclose()
        self._hints.close()
        await self._http.aclose()
