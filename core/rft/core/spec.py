"""The run's specification: everything the trainer is told, in `spec.json`. No secrets: those come over a pipe."""

from enum import StrEnum
from typing import Annotated, Literal, cast

from pydantic import Field, FiniteFloat, model_validator

from rft.core.base import Record
from rft.core.chat_spec import JobChat
from rft.core.devices import Devices
from rft.core.egress_settings import EgressSettings
from rft.core.graders import GraderSpec, JudgeServer
from rft.core.hyperparameters import LoraSpec, LossType, ResolvedHyperparameters
from rft.core.messages import ToolSchema
from rft.core.response_format import ResponseFormat


class EarlyStop(Record):
    """When a run may end before its last step; each rule counts alone, None is no rule."""

    target_reward: float | None = None
    """A mean validation reward of at least this."""
    plateau_evaluations: Annotated[int, Field(ge=1)] | None = None
    """So many evaluations in a row without a better validation reward."""
    overfitting_evaluations: Annotated[int, Field(ge=2)] | None = None
    """So many evaluations in a row at which validation fell while training rose."""


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


class BaseDtype(StrEnum):
    """What the base model's weights are in an update. Those of the adapter and its optimizer are float32."""

    AUTO = "auto"
    """bfloat16 on a GPU that knows it, where vLLM samples, whose weights are that, too; else float32."""
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class ShardBase(StrEnum):
    """Whether each of several ranks keeps a part of every layer of the base model, and none all of it."""

    AUTO = "auto"
    """Where it does not fit a rank's GPU."""
    ALWAYS = "always"
    NEVER = "never"


class Engine(StrEnum):
    """What samples. `module:factory` names of shipped fakes are allowed beside these."""

    TRANSFORMERS = "transformers"
    VLLM = "vllm"


def is_in_trainers_arithmetic(engine: str, base_dtype: BaseDtype) -> bool:
    """Whether samples come from the trainer's own process in single precision, as its updates then are, too."""
    return engine == Engine.TRANSFORMERS and base_dtype != BaseDtype.BFLOAT16


class VllmSpec(Record):
    """What `Engine.VLLM` samples with."""

    servers: tuple[str, ...] = ()
    """Their addresses; none: a server of the run's own is started, and ends with it."""
    python: str = ""
    """Of the environment that a server of the run's own is started in."""
    max_context_tokens: Annotated[int, Field(ge=1)] | None = None
    """Prompt plus completion at most; None: what the model allows, within the trainer's own limit."""
    requests_at_once: Annotated[int, Field(ge=1)] = 256
    """By server and by process that samples; the others wait in the engine's queue."""
    cpu_cache_gib: Annotated[int, Field(ge=1)] = 1
    """Memory for cached conversations of a server of the run's own, on a CPU."""
    gpu_memory_share: Annotated[float, Field(gt=0, le=1)] | None = None
    """What a server of the run's own may take of its GPU; None: what the update leaves it."""
    takes_turns: bool = False
    """Whether servers of the run's own sleep while the policy is updated, on the GPUs that they sample on."""


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
    devices: Devices | None = None
    """What several ranks train on; None: one process, on the first GPU or else the CPU."""
    base_dtype: BaseDtype = BaseDtype.AUTO
    shard_base: ShardBase = ShardBase.AUTO
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
        is_same_engine = is_in_trainers_arithmetic(self.engine, self.base_dtype)
        return not is_same_engine or self.hyperparameters.max_staleness > 0

    @property
    def policy_versions(self) -> int:
        """Those that are sampled from at once at most, with one that is on its way."""
        return self.hyperparameters.max_staleness + 2

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
