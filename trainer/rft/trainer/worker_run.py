"""A run in a rollout worker: its chat, its servers and its gateways, from what the trainer announced. No torch."""

import asyncio
from collections import defaultdict
from pathlib import Path

from rft.chat.model_folder import read_model_folder
from rft.chat.opening import OpenedChat, open_chat, saved_chat
from rft.chat.saved_chat import SavedChat
from rft.core.attempt import Attempt
from rft.core.errors import RftError
from rft.core.failure import Stage
from rft.core.spec import HoldRule, RunSpec
from rft.egress.limits import BreakerChange
from rft.engines.vllm.engine import VllmEngine
from rft.engines.vllm.named_versions import NamedVersions
from rft.engines.vllm.options import EngineOptions, ServerAddress
from rft.gateway_service.connection import Listener, ServiceConnection
from rft.grader_gateway.answer_format import Misfits
from rft.grader_gateway.remote import RemoteGraderGateway
from rft.rollouts.deadlines import Deadlines
from rft.rollouts.hold import FailingEndpoint, Hold
from rft.rollouts.setup import RolloutSetup
from rft.rollouts.shards.wire import RunForWorkers
from rft.rollouts.shards.worker import OpenedRun
from rft.tool_gateway.remote import RemoteToolGateway

_FOR_EVER_S = 1e9
_ENDS_S = 5.0
"""How long a rollout may wait to be handed over until the service knows its end."""


class CannotRunHere(RftError):
    """This worker is not set up for the run."""


async def open_worker_run(announced: str, *, gateway_token: str | None, vllm_api_key: str | None) -> OpenedRun:
    """Raises CannotRunHere, RunPaused where no server can be used, and whatever the model's folder does."""
    run = RunForWorkers.model_validate_json(announced)
    spec = run.spec
    tool_url, grader_url = spec.tool_gateway_url, spec.grader_gateway_url
    if tool_url is None or grader_url is None:
        raise CannotRunHere("the run has no gateway services, and secrets do not leave them")
    chat = await asyncio.to_thread(_open_chat, run)
    attempts, deadlines, versions = _AttemptsByRollout(), Deadlines(), NamedVersions()
    stand_still = _StandStill(spec, deadlines)

    def connection(service: str, url: str) -> ServiceConnection:
        """Of a job that the trainer has told the service of, with its secrets."""
        return ServiceConnection(
            service,
            url,
            token=gateway_token,
            job_id=spec.job_id,
            registration=None,
            listener=Listener(attempts.note, stand_still.on_change),
            retry=spec.retry,
        )

    tools = RemoteToolGateway(connection("tool gateway", tool_url), spec.tools)
    misfits = Misfits.of(spec.grader, spec.response_format)
    grader = RemoteGraderGateway(connection("grader gateway", grader_url), spec.grader.name, misfits=misfits)
    engine = VllmEngine([ServerAddress(url) for url in spec.vllm.servers], versions, _engine_options(run, vllm_api_key))
    setup = RolloutSetup(
        sampler=engine,
        chat_format=chat.chat_format,
        tools=tools,
        has_tool_servers=bool(spec.tools),
        grader=grader,
        host=tools if tools.has_hosts else None,
        grader_name=spec.grader.name,
        budgets=spec.budgets,
        temperature=spec.temperature,
        model_name=spec.model_name,
        deadlines=deadlines,
    )

    async def aclose() -> None:
        await stand_still.aclose()
        for part in (tools, grader):
            await part.aclose()
        await engine.close()

    async def ends_told() -> None:
        await tools.all_told(_ENDS_S)

    try:
        await engine.open()
    except BaseException:
        await aclose()
        raise
    return OpenedRun(setup, versions.name, attempts.take, aclose, ends_told)


def _open_chat(run: RunForWorkers) -> OpenedChat:
    spec, earlier = run.spec, SavedChat(run.chat, run.chat_template)
    folder = Path(spec.base_model)
    if not (folder / "tokenizer.json").is_file():
        raise CannotRunHere(
            f"there is no {folder / 'tokenizer.json'} on this host: a worker reads the tokenizer of the base model, so"
            " its folder has to be there under the same path (its weights need not)"
        )
    chat = open_chat(
        read_model_folder(folder),
        wanted=spec.chat.chat_format,
        options=spec.chat.chat_template_kwargs,
        reasoning_effort=spec.reasoning_effort,
        now=run.chat.rendered_as_of,
    )
    changed = saved_chat(chat).changed_since(earlier)
    if changed:
        raise CannotRunHere(f"in {folder} on this host, this is not what the trainer has: {', '.join(changed)}")
    return chat


def _engine_options(run: RunForWorkers, api_key: str | None) -> EngineOptions:
    spec = run.spec
    return EngineOptions(
        base_model=spec.base_model,
        max_context_tokens=run.max_context_tokens,
        api_key=api_key,
        requests_at_once=spec.vllm.requests_at_once,
        sample_s=spec.budgets.deadline_s,
    )


class _AttemptsByRollout:
    """Calls that were tried, until their rollout is handed over."""

    def __init__(self) -> None:
        self._by_rollout: defaultdict[str, list[Attempt]] = defaultdict(list)

    def note(self, attempt: Attempt) -> None:
        self._by_rollout[attempt.trace_id].append(attempt)

    def take(self, trace_id: str) -> tuple[Attempt, ...]:
        return tuple(self._by_rollout.pop(trace_id, ()))


class _StandStill:
    """Lets deadlines stand still while an endpoint is down, as the trainer's hold does; the trainer tells of it."""

    def __init__(self, spec: RunSpec, deadlines: Deadlines) -> None:
        self._round: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        self._hold: Hold | None = None
        if spec.hold is not None:
            rule = HoldRule(excluded_share=spec.hold.excluded_share, max_s=_FOR_EVER_S)
            self._hold = Hold(rule, tell=lambda told: None, blame=_nobody, deadlines=deadlines)
            self._round = asyncio.create_task(self._stay(self._hold))

    def on_change(self, change: BreakerChange) -> None:
        if self._hold is not None:
            self._hold.on_change(change)

    async def aclose(self) -> None:
        self._over.set()
        if self._round is not None:
            await self._round

    async def _stay(self, hold: Hold) -> None:
        async with hold.round(0):
            await self._over.wait()


def _nobody(change: BreakerChange) -> FailingEndpoint:
    return FailingEndpoint(Stage.PLATFORM, change.endpoint, "")
