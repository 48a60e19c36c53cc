"""From the customer's order to the run's specification."""

from typing import Protocol

from rft.core.base import JsonObject
from rft.core.chat_spec import LONGEST_CONTEXT_TOKENS, ChatSpec, JobChat
from rft.core.hyperparameters import AUTO_STALENESS, Hyperparameters, LoraSpec, ResolvedHyperparameters, resolve
from rft.core.messages import ToolSchema
from rft.core.response_format import ResponseFormat
from rft.core.spec import Budgets, EarlyStop, HoldRule, RetryBudget, RunSpec, ToolServer, VllmSpec
from rft.platform.jobs.repository import JobRow
from rft.platform.orders.base_models import STARTER, chat_of_job
from rft.platform.orders.devices import gpu_memory_share, to_devices
from rft.platform.orders.grader_specification import to_grader_spec, to_judge
from rft.platform.orders.response_format import to_response_format
from rft.platform.orders.rollout_workers import to_rollout_workers
from rft.platform.orders.schemas import Method, Reinforcement
from rft.platform.orders.tool_schemas import NO_PARAMETERS, Tool
from rft.platform.settings import Settings
from rft.vllm_server.environment import chosen_python

STARTER_LEARNING_RATE = 2e-3
"""Half a million weights want steps that would ruin a larger model."""
_TURNS_BEYOND_TOOL_CALLS = 2
"""The turn that learns of the used-up budget, and the last one."""


class Ordered(Protocol):
    """What a job's row and a rehearsal's have in common."""

    @property
    def id(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def method(self) -> JsonObject: ...


def to_run_spec(
    job: Ordered,
    resolved: ResolvedHyperparameters,
    settings: Settings,
    base_model_path: str,
    chat: JobChat | None = None,
    *,
    max_importance_gap: float | None = None,
    slot: int = 0,
) -> RunSpec:
    """Everything the trainer is told; the header values travel apart.

    `chat`: what the job kept of its model's chat; None: what is registered now.
    `max_importance_gap`: what the job was resumed with; None: as ordered, or else as set.
    `slot`: of the host's, in which it trains.
    """
    order = Method.model_validate(job.method).reinforcement
    chat = chat or chat_of_job(job.model, settings)
    return RunSpec(
        job_id=job.id,
        seed=job.seed,
        base_model=base_model_path,
        chat=chat.model_copy(update={"max_context_tokens": context_limit(order, chat)}),
        reasoning_effort=order.hyperparameters.reasoning_effort,
        model_name=job.model,
        hyperparameters=resolved,
        tools=tuple(to_tool_server(tool, settings) for tool in order.tools or []),
        grader=to_grader_spec(order.grader, settings),
        response_format=to_response_format(order.response_format),
        budgets=to_budgets(order, settings),
        retry=RetryBudget(
            max_retries=settings.max_retries,
            total_s=settings.retry_total_s,
            first_wait_s=settings.retry_first_wait_s,
        ),
        early_stop=_to_early_stop(order),
        measures_best=True,
        lora=resolved.lora or to_lora(order, job.model, settings),
        loss_type=order.loss_type or "dapo",
        temperature=resolved.temperature,
        engine=settings.engine,
        vllm=to_vllm_spec(settings, slot),
        egress=settings.egress,
        hold=HoldRule(excluded_share=settings.hold_excluded_share, max_s=settings.hold_max_s),
        platform_failure_share=settings.platform_failure_share,
        judge=to_judge(settings),
        tool_gateway_url=settings.tool_gateway_url,
        grader_gateway_url=settings.grader_gateway_url,
        keeps_tokens=settings.keep_tokens,
        rollout_workers=to_rollout_workers(settings),
        devices=to_devices(settings, slot),
        base_dtype=settings.base_dtype,
        shard_base=settings.shard_base,
        torch_threads=settings.torch_threads,
        micro_batch_tokens=settings.micro_batch_tokens,
        max_importance_gap=max_importance_gap or ordered_gap(order, settings),
    )


def resolved(
    order: Reinforcement,
    *,
    train_rows: int,
    parameters: int | None = None,
    auto_staleness: int = AUTO_STALENESS,
) -> ResolvedHyperparameters:
    """The order's hyperparameters with every `auto` filled in. Needs train_rows >= 1.

    `parameters`: of the base model; None where nobody knows. `auto_staleness`: what suits the job's endpoints.
    """
    written = order.hyperparameters.model_dump(include=set(Hyperparameters.model_fields))
    wanted = Hyperparameters.model_validate(written)
    return resolve(
        wanted,
        train_rows=train_rows,
        parameters=parameters,
        loss_type=order.loss_type or "dapo",
        auto_staleness=auto_staleness,
    )


def context_limit(order: Reinforcement, chat: ChatSpec) -> int | None:
    """Prompt and completion at most: what is ordered, within what is set for the model; None: what the model allows."""
    ordered = None if order.budgets is None else order.budgets.max_context_tokens
    if ordered is None:
        return chat.max_context_tokens
    return min(ordered, chat.max_context_tokens or LONGEST_CONTEXT_TOKENS)


def ordered_gap(order: Reinforcement, settings: Settings) -> float:
    """How far trainer and sampler may differ on a step's tokens before the job is paused."""
    return order.max_importance_gap or settings.max_importance_gap


def described_tools(job: JobRow, settings: Settings) -> tuple[ToolSchema, ...]:
    """What the model was told of its tools where a row says nothing of any."""
    order = Method.model_validate(job.method).reinforcement
    servers = (to_tool_server(tool, settings) for tool in order.tools or [])
    return tuple(server.schema_of_job for server in servers if server.schema_of_job is not None)


def ordered_format(job: JobRow) -> ResponseFormat | None:
    """What the job's answers must be."""
    return to_response_format(Method.model_validate(job.method).reinforcement.response_format)


def to_tool_server(tool: Tool, settings: Settings) -> ToolServer:
    """The tool as a run is told of it; what the order leaves open is the settings'."""
    return ToolServer(
        name=tool.name,
        server_url=tool.server_url,
        header_names=tuple(tool.headers or ()),
        timeout_s=tool.timeout_s or settings.tool_timeout_s,
        max_output_chars=tool.max_output_chars,
        max_concurrency=tool.max_concurrency,
        rate_limit=tool.rate_limit,
        retry=tool.retry or "safe",
        schema_of_job=_to_schema(tool),
        callback_url=tool.callback_url,
    )


def _to_schema(tool: Tool) -> ToolSchema | None:
    if not tool.has_schema:
        return None
    parameters = NO_PARAMETERS if tool.parameters is None else tool.parameters
    return ToolSchema(name=tool.name, description=tool.description or "", parameters=parameters)


def _to_early_stop(order: Reinforcement) -> EarlyStop | None:
    wanted = order.early_stop
    return wanted and EarlyStop.model_validate(wanted.model_dump(include=set(EarlyStop.model_fields)))


def to_budgets(order: Reinforcement, settings: Settings) -> Budgets:
    """Of a rollout, what the order leaves open filled in."""
    default = Budgets()
    max_tool_calls = order.max_episode_steps or default.max_tool_calls
    wanted = order.budgets
    return Budgets(
        max_tool_calls=max_tool_calls,
        max_tokens=(wanted and wanted.max_tokens) or settings.rollout_max_tokens,
        max_reasoning_tokens=wanted and wanted.max_reasoning_tokens,
        max_turns=max(default.max_turns, max_tool_calls + _TURNS_BEYOND_TOOL_CALLS),
        deadline_s=(wanted and wanted.deadline_s) or settings.rollout_deadline_s,
    )


def to_lora(order: Reinforcement, model: str, settings: Settings) -> LoraSpec:
    """The adapter, what the order leaves open filled in."""
    rate = STARTER_LEARNING_RATE if model == STARTER else settings.learning_rate
    wanted = order.lora.model_dump(include=set(LoraSpec.model_fields), exclude_none=True) if order.lora else {}
    return LoraSpec.model_validate({"learning_rate": rate, **wanted})


def to_vllm_spec(settings: Settings, slot: int = 0) -> VllmSpec:
    """Servers to sample from; one of our own as the devices of the host's slot allow it."""
    return VllmSpec(
        servers=settings.vllm_servers,
        python=str(chosen_python(settings.vllm_python, settings.home)),
        max_context_tokens=settings.vllm_max_context_tokens,
        requests_at_once=settings.vllm_requests_at_once,
        cpu_cache_gib=settings.vllm_cpu_cache_gib,
        gpu_memory_share=gpu_memory_share(settings, slot),
    )
