"""The run's specification: everything the trainer is told, in `spec.json`. No secrets: those come over a pipe."""

from enum import StrEnum
from math import ceil
from typing import Annotated, Literal, cast

from pydantic import Field, FiniteFloat, model_validator

from rft.core.base import Record
from rft.core.chat_spec import JobChat
from rft.core.egress_settings import EgressSettings
from rft.core.graders import GraderSpec, JudgeServer
from rft.core.messages import ToolSchema
from rft.core.response_format import ResponseFormat
from rft.core.update_spec import Auto, Update, UpdateWanted, resolve_update

LossType = Literal["dapo", "grpo", "bnpo", "dr_grpo", "gspo", "cispo"]
ROLLOUTS_PER_ROW = 8
"""Group size at compute_multiplier 1."""
MAX_STALENESS = 8
_AUTO_STALENESS = 1
"""Rollouts and updates of about the same length never wait for each other then."""


class Hyperparameters(UpdateWanted):
    """As the customer wrote them (contract section 1.2); `auto` where the platform decides."""

    n_epochs: Annotated[int, Field(ge=1, le=50)] | Auto = "auto"
    batch_size: Annotated[int, Field(ge=1, le=256)] | Auto = "auto"
    learning_rate_multiplier: Annotated[FiniteFloat, Field(gt=0)] | Auto = "auto"
    compute_multiplier: Annotated[FiniteFloat, Field(gt=1e-5, le=10)] | Auto = "auto"
    eval_interval: Annotated[int, Field(ge=1)] | Auto = "auto"
    eval_samples: Annotated[int, Field(ge=1)] | Auto = "auto"
    max_staleness: Annotated[int, Field(ge=0, le=MAX_STALENESS)] | Auto = 0
    reasoning_effort: Literal["default", "none", "minimal", "low", "medium", "high"] = "default"


class EarlyStop(Record):
    """When a run may end before its last step; each rule counts alone, None is no rule."""

    target_reward: float | None = None
    """A mean validation reward of at least this."""
    plateau_evaluations: Annotated[int, Field(ge=1)] | None = None
    """So many evaluations in a row without a better validation reward."""
    overfitting_evaluations: Annotated[int, Field(ge=2)] | None = None
    """So many evaluations in a row at which validation fell while training rose."""


class LoraSpec(Record):
    """Adapter shape. `learning_rate` is what learning_rate_multiplier 1 means."""

    rank: int = 16
    alpha: int = 32
    learning_rate: float = 2e-3
    target_modules: tuple[str, ...] | Literal["all-linear"] | None = None
    """Layers that get an adapter, by the last part of their name; None: those that suit the model."""


class ResolvedHyperparameters(Update):
    """What the run really uses."""

    n_epochs: int
    batch_size: int
    """Rows per step."""
    learning_rate_multiplier: float
    compute_multiplier: float
    eval_interval: int
    eval_samples: int
    """Rollouts per validation row and evaluation."""
    group_size: int
    """Rollouts per row and step."""
    steps: int
    """Optimizer steps of the whole run; the last batch wraps around so that no row is dropped."""
    max_staleness: int = 0
    """Steps by which the policy that samples may be behind the one that is updated: rollouts of so many further steps
    are under way while a step is trained."""
    lora: LoraSpec | None = None
    """The adapter; None in jobs of earlier releases, and where there is none."""
    max_context_tokens: int | None = None
    """Prompt and completion at most; None where it was not known before the run."""

    def is_evaluated(self, step: int) -> bool:
        """Whether the validation rows are rolled out after a step: before the first, every so many, after the last."""
        return step % self.eval_interval == 0 or step == self.steps

    @property
    def rollouts_per_step(self) -> int:
        """Rollouts that a step is trained on, without those of further rows."""
        return self.batch_size * self.group_size

    @property
    def burst(self) -> int:
        """Training rollouts that may be under way at once: what the customer's endpoints must bear."""
        return self.rollouts_per_step * (1 + self.max_staleness)


def group_size(compute_multiplier: float) -> int:
    """G = max(2, round(8 x compute_multiplier)), halves rounded up."""
    return max(2, int(ROLLOUTS_PER_ROW * compute_multiplier + 0.5))


def resolve(
    wanted: Hyperparameters, *, train_rows: int, parameters: int | None = None, loss_type: LossType = "dapo"
) -> ResolvedHyperparameters:
    """Replace every `auto`; pure, so that what is reported at creation is what runs. Needs train_rows >= 1.

    `parameters`: of the base model; None where nobody knows.
    """
    batch_size = min(16, train_rows) if wanted.batch_size == "auto" else min(wanted.batch_size, train_rows)
    steps_per_epoch = ceil(train_rows / batch_size)
    n_epochs = max(1, min(50, ceil(30 / steps_per_epoch))) if wanted.n_epochs == "auto" else wanted.n_epochs
    steps = ceil(train_rows * n_epochs / batch_size)
    compute_multiplier = 1.0 if wanted.compute_multiplier == "auto" else wanted.compute_multiplier
    max_staleness = _AUTO_STALENESS if wanted.max_staleness == "auto" else wanted.max_staleness
    update = resolve_update(
        wanted, steps=steps, parameters=parameters, is_stale=max_staleness > 0, is_capped=loss_type == "cispo"
    )
    return ResolvedHyperparameters(
        n_epochs=n_epochs,
        batch_size=batch_size,
        learning_rate_multiplier=1.0 if wanted.learning_rate_multiplier == "auto" else wanted.learning_rate_multiplier,
        compute_multiplier=compute_multiplier,
        eval_interval=max(1, steps // 6) if wanted.eval_interval == "auto" else wanted.eval_interval,
        eval_samples=1 if wanted.eval_samples == "auto" else wanted.eval_samples,
        max_staleness=max_staleness,
        group_size=group_size(compute_multiplier),
        steps=steps,
        **update.model_dump(),
    )


class ToolServer(Record):
    """Where one tool lives. Header values and what is secret of its URLs travel apart (`RunSecrets`)."""

    name: str
    server_url: str
    header_names: tuple[str, ...] = ()
    timeout_s: float = 600.0
    """Deadline of one attempt."""
    max_output_chars: int | None = None
    """Longer outputs are cut before the model reads them, with a visible marker; None for no cut."""
    max_concurrency: Annotated[int, Field(ge=1)] | None = None
    """Calls in flight at most; None for the platform's own limit."""
    rate_limit: Annotated[FiniteFloat, Field(gt=0)] | None = None
    """Calls started per second at most."""
    retry: Literal["safe", "unsafe"] = "safe"
    """Whether a call that may have arrived may be sent again."""
    schema_of_job: ToolSchema | None = None
    """The tool's description for rows that carry no tools of their own; None when the rows bring it."""
    callback_url: str | None = None
    """Where `rollout.started` and `rollout.ended` are POSTed, with the tool's headers; None for no callbacks."""


class Budgets(Record):
    """What one rollout may use up."""

    max_tool_calls: int = 50
    """`max_episode_steps` of the contract. A call beyond it is answered "budget used up"; then one last turn."""
    max_tokens: int = 4096
    """Tokens the policy may sample over all turns."""
    max_reasoning_tokens: Annotated[int, Field(ge=1)] | None = None
    """Of one turn's thoughts: longer ones are closed by tokens that nobody sampled; None: no limit of their own."""
    max_turns: int = 100
    deadline_s: float = 3600.0


class RetryBudget(Record):
    """How long and how often one call to an endpoint is tried."""

    max_retries: int = 3
    total_s: float = 1800.0
    """All attempts and waits together."""
    first_wait_s: float = 0.5
    max_wait_s: float = 30.0


class HoldRule(Record):
    """When a step is held instead of trained on what is left of it."""

    excluded_share: Annotated[float, Field(gt=0, le=1)] = 0.25
    """A round of rollouts of which a larger share ended in endpoint failures is not used: it waits."""
    max_s: float = 3600.0
    """A run that was held for longer at one go has failed."""
    first_trial_s: float = 2.0
    """Wait before the first failed rollout is tried again; doubles up to `max_trial_s`."""
    max_trial_s: float = 60.0


IMPORTANCE_CAP = 2.0
"""Importance weights of tokens are cut here: twice as likely to the trainer as to the sampler."""
MAX_IMPORTANCE_GAP = 0.2
"""Mean absolute difference of trainer and sampler log-probabilities beyond which nothing is trained on a step."""


class Engine(StrEnum):
    """What samples. `module:factory` names of shipped fakes are allowed beside these."""

    TRANSFORMERS = "transformers"
    VLLM = "vllm"


class VllmSpec(Record):
    """What `Engine.VLLM` samples with."""

    servers: tuple[str, ...] = ()
    """Their addresses; none: a server of the run's own is started, and ends with it."""
    python: str = ""
    """Of the environment that a server of the run's own is started in."""
    max_context_tokens: Annotated[int, Field(ge=1)] | None = None
    """Prompt plus completion at most; None: what the model allows, within the trainer's own limit."""
    requests_at_once: Annotated[int, Field(ge=1)] = 256
    """By server; the others wait in the engine's queue."""
    cpu_cache_gib: Annotated[int, Field(ge=1)] = 1
    """Memory for cached conversations of a server of the run's own, on a CPU."""
    gpu_memory_share: Annotated[float, Field(gt=0, le=1)] = 0.4
    """What a server of the run's own may take of a GPU that it shares with the training."""


class RolloutWorkersSpec(Record):
    """Rollouts are run by workers on any host, and not in the trainer's process."""

    platform_url: str
    """Where trainer and workers reach the platform."""


class RunSpec(Record):
    """`spec.json`: one run of one job."""

    version: Literal[1] = 1
    job_id: str
    seed: int
    base_model: str
    """Local directory (or hub name) of the base model."""
    chat: JobChat = JobChat()
    reasoning_effort: str = "default"
    """How much the model is to think, where its chat template has a switch for it."""
    model_name: str
    hyperparameters: ResolvedHyperparameters
    tools: tuple[ToolServer, ...]
    grader: GraderSpec
    response_format: ResponseFormat | None = None
    """What answers must be; None where any text will do."""
    budgets: Budgets = Budgets()
    retry: RetryBudget = RetryBudget()
    lora: LoraSpec = LoraSpec()
    loss_type: LossType = "dapo"
    temperature: float = 1.0
    engine: str = Engine.TRANSFORMERS
    """An `Engine`, or `package.module:factory` of another sampler."""
    vllm: VllmSpec = VllmSpec()
    egress: EgressSettings = EgressSettings()
    early_stop: EarlyStop | None = None
    measures_best: bool = False
    """Whether the best checkpoint is measured once more at the end, on rows or with seeds that chose nothing."""
    replacement_share: float = 0.1
    """Failed rollouts replaced per step, as a share of the step's rollouts."""
    platform_failure_share: Annotated[float, Field(ge=0, le=1)] = 0.25
    """A round of rollouts of which the platform itself lost a larger share is rolled out anew; after that, the run
    pauses."""
    hold: HoldRule | None = None
    """None: rounds are used whatever share of them failed."""
    judge: JudgeServer | None = None
    """Who answers for model graders."""
    tool_gateway_url: str | None = None
    """A tool gateway service that makes the calls; None: the trainer makes them itself."""
    grader_gateway_url: str | None = None
    """A grader gateway service that grades; None: the trainer does it itself."""
    keeps_tokens: bool = False
    """Whether the tokens of rollouts are told in the event log."""
    rollout_workers: RolloutWorkersSpec | None = None
    """None: the trainer runs the rollouts itself."""
    torch_threads: int = 2
    micro_batch_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens of one micro-batch of an update at most, padding included; None: found by the free memory."""
    max_importance_gap: Annotated[FiniteFloat, Field(gt=0)] = MAX_IMPORTANCE_GAP
    """A step on whose tokens trainer and sampler differ by more, in the mean, pauses the run before its update."""

    @property
    def is_weighted(self) -> bool:
        """Whether sampler and trainer may differ, so that each token's loss needs an importance weight.

        Only the engine in the trainer's own process and arithmetic is known to agree with it, about the same policy.
        """
        return self.engine != Engine.TRANSFORMERS or self.hyperparameters.max_staleness > 0

    @model_validator(mode="before")
    @classmethod
    def _of_an_earlier_release(cls, given: object) -> object:
        """A `spec.json` from before 2026-11-22 has the egress settings beside the other fields."""
        if not isinstance(given, dict):
            return given
        fields = dict(cast(dict[str, object], given))
        egress = {name: fields.pop(name) for name in EgressSettings.model_fields if name in fields}
        return fields | {"egress": egress} if egress else fields


class RunSecrets(Record):
    """Header values and secret URLs by tool name and for the grader; the trainer reads them from standard input."""

    tool_headers: dict[str, dict[str, str]] = Field(default_factory=dict)
    grader_headers: dict[str, str] = Field(default_factory=dict)
    part_headers: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Header values of the endpoint graders inside a multi grader, by variable name."""
    tool_urls: dict[str, str] = Field(default_factory=dict)
    """Whole URLs by tool name, where a URL holds a secret: the specification has it redacted."""
    callback_urls: dict[str, str] = Field(default_factory=dict)
    """The same of `callback_url`."""
    grader_url: str | None = None
    part_urls: dict[str, str] = Field(default_factory=dict)
    """Of the endpoint graders inside a multi grader, by variable name."""
    signing_secrets: tuple[str, ...] = ()
    """Standard Webhooks secrets, newest first; calls are signed with each."""
    judge_api_key: str | None = None
    gateway_token: str | None = None
    """Shown to the gateway services."""
    broker_url: str | None = None
    """The queue to rollout workers."""
    inbox_token: str | None = None
    """Opens the inbox of this launch."""
    vllm_api_key: str | None = None
    """Shown to the servers of `VllmSpec.servers`."""
