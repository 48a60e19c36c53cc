"""Samples of a run that a model makes: messages out of each item, the model's turns, and the tools that it calls."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import cast

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.errors import RftError
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.ids import seed_63
from rft.core.messages import Message, Role
from rft.core.spec import Budgets, RetryBudget, ToolServer
from rft.egress.endpoint_client import EndpointClient
from rft.egress.finish_closing import finish_closing
from rft.grader_gateway.contract import answer_of, is_document
from rft.grader_gateway.templates import MAX_RENDERED_CHARS, Template, TooLong, Unresolved, parse, render_all
from rft.platform.api.errors import ApiError
from rft.platform.evals.output_item_repository import ModelUsage
from rft.platform.evals.run_objects import shown_sample
from rft.platform.evals.run_repository import RunRow
from rft.platform.evals.run_schemas import DATA_SOURCE, ItemReference, MessageTemplate, SampledSource, SamplingParams
from rft.platform.evals.run_tools import RUN_TOOLS, RunTool
from rft.platform.evals.verdicts import NoVerdict
from rft.platform.jobs.run_spec import to_tool_server
from rft.platform.orders.judge_fields import text_of
from rft.platform.orders.response_format import to_response_format
from rft.platform.providers.chat_models import ChatModel, ProviderModel, find_chat_model, policy_for
from rft.platform.providers.schemas import PricePerMillion
from rft.platform.serving.processes import ServingProcesses
from rft.platform.settings import Settings
from rft.platform.store.unit_of_work import UnitOfWork
from rft.platform.worker.context import WorkerContext
from rft.platform.worker.eval_items import EvalItem
from rft.platform.worker.eval_samples import Answer, shown_message, unanswered
from rft.platform.worker.per_process_limits import limits_of_eval_run
from rft.platform.worker.referred_messages import referred_messages
from rft.rollouts.chat_policy import UNKEPT_FORMAT, UNUSABLE_MODEL, ChatSampling
from rft.rollouts.message_rollout import MessageRollout, MessageSetup, run_message_rollout
from rft.rollouts.missing_tools import RecentRollouts, suspected_tools
from rft.rollouts.provider_policy import open_provider_client
from rft.tool_gateway.callbacks import RolloutCallbacks
from rft.tool_gateway.gateway import HttpToolGateway


class NothingAnswered(RftError):
    """No item can be answered: the model is not there, refuses its key, or cannot be held to the format."""

    def __init__(self, message: str, *, code: str, param: str) -> None:
        """`code`, `param`: as the run tells of it."""
        super().__init__(message)
        self.code, self.param = code, param


class MissingTool(RftError):
    """A tool is not there: no verdict on what came of its answers says anything of the model."""

    def __init__(self, missing: Mapping[str, Failure]) -> None:
        """`missing`: one tool or more, by name."""
        super().__init__(next(iter(missing.values())).message)
        self.missing = missing


@dataclass(frozen=True, slots=True)
class ItemMessages:
    """What the model is asked about an item."""

    source: MessageTemplate | ItemReference
    templates: tuple[Template, ...]

    @classmethod
    def of(cls, source: MessageTemplate | ItemReference) -> "ItemMessages":
        """Templates are parsed once."""
        messages = source.template if isinstance(source, MessageTemplate) else []
        return cls(source, tuple(parse(text_of(message.content)) for message in messages))

    def messages(self, item: JsonObject) -> tuple[Message, ...] | NoVerdict:
        """The messages, or what the item lacks."""
        if isinstance(self.source, ItemReference):
            return referred_messages(item, self.source.item_reference)
        texts = render_all(self.templates, sample={}, item=item)
        if isinstance(texts, TooLong):
            message = f"The input messages become more than {MAX_RENDERED_CHARS:,} characters with this item."
            return NoVerdict("invalid_input_messages", message)
        if isinstance(texts, Unresolved):
            message = f"The input messages name {texts.variable.source!r}, which the item does not have."
            return NoVerdict("invalid_template_variable", message)
        roles = [Role(message.role) for message in self.source.template]
        return tuple(Message(role=role, content=text) for role, text in zip(roles, texts, strict=True))


@dataclass(frozen=True, slots=True)
class Sampling:
    """The model of a run, ready to answer items."""

    run: RunRow
    prompts: ItemMessages
    tools: tuple[RunTool, ...]
    setup: MessageSetup
    shown: JsonObject
    """Sampling parameters as output items show them."""
    recent: RecentRollouts
    format_param: str
    """What of its sampling parameters says how answers must be."""
    price: PricePerMillion | None = None
    """What the model's tokens cost, where its provider tells."""

    @property
    def max_concurrency(self) -> int:
        """As many samples are worth having under way at once."""
        return self.setup.policy.max_concurrency

    async def answer(self, item: EvalItem, sample_index: int) -> Answer:
        """A sample. Raises NothingAnswered and MissingTool."""
        prompt = self.prompts.messages(item.item)
        if isinstance(prompt, NoVerdict):
            return unanswered(prompt)
        told = tuple(tool.told for tool in self.tools)
        row = DatasetRow(index=item.index, messages=prompt, tools=told, item=item.item)
        seed = seed_63(self.run.seed, item.index, sample_index)
        setup = replace(self.setup, sampling=replace(self.setup.sampling, seed=seed))
        rollout = await run_message_rollout(row, setup)
        if isinstance(rollout.outcome, Failure):
            self._refuse_unanswerable(rollout.outcome)
        _refuse_missing(self.recent.add(rollout))
        return self._answer(row, rollout, seed)

    def _refuse_unanswerable(self, failure: Failure) -> None:
        """What every other item would meet, too."""
        if failure.detail == UNUSABLE_MODEL:
            raise _unusable_model(failure.message)
        if failure.detail == UNKEPT_FORMAT:
            param = f"data_source.sampling_params.{self.format_param}"
            raise NothingAnswered(failure.message, code="unkept_format", param=param)

    def check_tools(self) -> None:
        """Once all samples are there. Raises MissingTool."""
        _refuse_missing(self.recent.at_end())

    def _answer(self, row: DatasetRow, rollout: MessageRollout, seed: int) -> Answer:
        failure = rollout.outcome if isinstance(rollout.outcome, Failure) else None
        messages = rollout.messages if self._has_servers else _without_results(rollout.messages)
        model = rollout.models[0] if rollout.models else self.run.model
        trace = FinishedTrace.of(row, messages, rollout.stop_reason, model=model)
        has_json = self.setup.sampling.response_format is not None or is_document(answer_of(trace))
        trace = replace(trace, has_json=has_json)
        finish_reason = _finish_reason(trace)
        if not self._has_servers:
            trace = replace(trace, finish_reason=finish_reason)
        usage = rollout.usage
        shown = shown_sample(
            model=model,
            prompt=[shown_message(message) for message in row.messages],
            output=[shown_message(message) for message in messages[len(row.messages) :]],
            finish_reason=finish_reason,
            error=None if failure is None else {"code": str(failure.code), "message": failure.message},
            usage={
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "cached_tokens": usage.cached_tokens,
                "total_tokens": usage.prompt_tokens + usage.completion_tokens,
                "reasoning_tokens": usage.reasoning_tokens,
            },
            sampling={**self.shown, "seed": seed},
            trace_id=rollout.trace_id,
            stop_reason=None if rollout.stop_reason is None else str(rollout.stop_reason),
            turns_without_usage=rollout.turns_without_usage,
            latency_s=rollout.duration_s,
            cost=None if self.price is None or rollout.turns_without_usage else self.price.cost_of(usage),
        )
        return Answer(
            shown,
            trace=None if failure is not None else trace,
            failure=failure,
            trace_id=rollout.trace_id,
            model=self.run.model,
            usage=ModelUsage(
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cached_tokens=usage.cached_tokens,
                calls=len(rollout.turns) + rollout.answers_without_turn,
            ),
            tool_calls=rollout.tool_calls,
            tools_not_found=suspected_tools(rollout),
            latency_s=rollout.duration_s,
        )

    @property
    def _has_servers(self) -> bool:
        return any(tool.server is not None for tool in self.tools)


def _unusable_model(message: str) -> NothingAnswered:
    return NothingAnswered(message, code="model_unusable", param="data_source.model")


def _refuse_missing(missing: Mapping[str, Failure]) -> None:
    if missing:
        raise MissingTool(missing)


def _without_results(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Up to the model's last word: what stands behind it answers calls that nobody made."""
    end = len(messages)
    while end and messages[end - 1].role is Role.TOOL:
        end -= 1
    return tuple(messages[:end])


def _finish_reason(trace: FinishedTrace) -> str:
    last = trace.messages[-1] if trace.messages else None
    calls = last is not None and last.role is Role.ASSISTANT and last.tool_calls
    return "tool_calls" if calls and trace.finish_reason == "stop" else trace.finish_reason


@asynccontextmanager
async def open_sampling(
    context: WorkerContext,
    run: RunRow,
    model: ChatModel,
    client: EndpointClient,
    processes: ServingProcesses,
    recent: RecentRollouts,
) -> AsyncGenerator[Sampling]:
    """Connections to the model and to the tools that it calls. `client`: for tools; `recent`: what came before."""
    source = DATA_SOURCE.validate_python(cast("dict[str, object]", run.data_source))
    assert isinstance(source, SampledSource), "only these have a model"
    assert source.input_messages is not None, "checked when the run was ordered"
    wanted = source.sampling_params or SamplingParams()
    tools = () if run.sealed is None else RUN_TOOLS.validate_json(context.secret_box.unseal_text(run.sealed))
    servers = [tool.server for tool in tools if tool.server is not None]
    called = tuple(to_tool_server(server, context.settings) for server in servers)
    headers = {server.name: server.headers or {} for server in servers}
    async with AsyncExitStack() as stack:
        settings = context.settings
        provider = await stack.enter_async_context(
            open_provider_client(settings.egress, retry=retry_budget(settings), limits=limits_of_eval_run(settings))
        )
        policy = policy_for(run.model, model, settings=settings, processes=processes, client=provider, owner=run.id)
        price = model.price if isinstance(model, ProviderModel) else None
        host = RolloutCallbacks(client, called, headers=headers, job_id=run.id)
        stack.push_async_callback(finish_closing, host.aclose)
        setup = MessageSetup(
            tools=HttpToolGateway(client, called, headers=headers, job_id=run.id),
            has_tool_servers=bool(called),
            grader=None,
            grader_name="",
            budgets=_budgets(context, wanted, called),
            model_name=run.model,
            host=host if host.has_hosts else None,
            policy=policy,
            sampling=to_chat_sampling(wanted),
        )
        prompts = ItemMessages.of(source.input_messages)
        yield Sampling(run, prompts, tools, setup, _shown(wanted, setup.budgets), recent, wanted.format_param, price)


async def find_model(connection: AsyncConnection[TupleRow], context: WorkerContext, run: RunRow) -> ChatModel:
    """The one that is to answer. Raises NothingAnswered."""
    try:
        return await find_chat_model(UnitOfWork(connection), context.settings, context.secret_box, run.model)
    except ApiError as error:
        raise _unusable_model(error.message) from error


def retry_budget(settings: Settings) -> RetryBudget:
    """How long a call of a run is tried."""
    return RetryBudget(
        max_retries=settings.max_retries, total_s=settings.retry_total_s, first_wait_s=settings.retry_first_wait_s
    )


def _budgets(context: WorkerContext, wanted: SamplingParams, called: Sequence[ToolServer]) -> Budgets:
    settings = context.settings
    budgets = Budgets(
        max_tokens=wanted.max_completion_tokens or settings.rollout_max_tokens, deadline_s=settings.rollout_deadline_s
    )
    return budgets if called else budgets.model_copy(update={"max_turns": 1})


def to_chat_sampling(wanted: SamplingParams) -> ChatSampling:
    """As rollouts take it; what is absent is left to the model."""
    return ChatSampling(
        temperature=wanted.temperature,
        top_p=wanted.top_p,
        reasoning_effort=wanted.reasoning_effort,
        response_format=to_response_format(wanted.wanted_format),
    )


def _shown(wanted: SamplingParams, budgets: Budgets) -> JsonObject:
    """What an output item shows of it: the limit that holds, and what was ordered of what a model may know better."""
    ordered = {name: cast("JsonValue", getattr(wanted, name)) for name in ("temperature", "top_p")}
    return {**ordered, "max_completion_tokens": budgets.max_tokens}
