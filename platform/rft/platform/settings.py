"""Settings: the only reader of the environment, but for two options of the command line that name their variables.

Every field is documented here and nowhere else.
"""

import os
import socket
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, LiteralString
from urllib.parse import urlsplit

from pydantic import AfterValidator, AliasChoices, Field, IPvAnyNetwork, ValidationError
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from rft.core.bad_settings import bad_setting, unknown_variables
from rft.core.chat_spec import BaseModelSetting
from rft.core.devices import parse_devices
from rft.core.egress_settings import EgressSettings
from rft.core.log_level import LogLevel
from rft.core.server_urls import broker_url_problem, database_url_problem
from rft.core.spec import MAX_IMPORTANCE_GAP, BaseDtype, Engine, ShardBase
from rft.gateway_service.settings import ServiceSettings

_OTHER_VARIABLES = frozenset({"RFT_BASE_URL", "RFT_API_KEY", "RFT_DATABASE_URL", "RFT_BROKER_URL", "RFT_GATEWAY_HOST"})
"""Read elsewhere, by the command line as a client, or under another name."""


def _default_home() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/rft")
    return Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share")) / "rft"


def _devices(text: str | None) -> str | None:
    if not text or not text.strip():
        return None
    try:
        parse_devices(text)
    except ValueError as problem:
        raise PydanticCustomError("devices", "{problem}", {"problem": str(problem)}) from problem
    return text


def _refused_by(problem_of: Callable[[str], str | None], kind: LiteralString) -> AfterValidator:
    """Refuses what has a problem, in words without the value."""

    def checked(value: str | None) -> str | None:
        problem = problem_of(value) if value else None
        if problem is not None:
            raise PydanticCustomError(kind, "{problem}", {"problem": problem})
        return value

    return AfterValidator(checked)


def _engine_problem(engine: str) -> str | None:
    if engine in (*Engine,) or ":" in engine:
        return None
    return "it must be transformers, vllm, or package.module:factory"


class Settings(BaseSettings):
    """Read from `RFT_<NAME>`; `DATABASE_URL` and `BROKER_URL` also without the prefix."""

    model_config = SettingsConfigDict(
        env_prefix="RFT_", frozen=True, extra="ignore", env_ignore_empty=True, allow_inf_nan=False
    )

    home: Annotated[Path, Field(default_factory=_default_home)]
    """Where all state lives: database, files, runs, the starter policy."""
    database_url: Annotated[
        str | None,
        Field(default=None, validation_alias=AliasChoices("DATABASE_URL", "RFT_DATABASE_URL")),
        _refused_by(database_url_problem, "database_url"),
    ]
    """PostgreSQL 15 or newer. Unset: an embedded server under `home`."""
    broker_url: Annotated[
        str | None,
        Field(default=None, validation_alias=AliasChoices("BROKER_URL", "RFT_BROKER_URL")),
        _refused_by(broker_url_problem, "broker_url"),
    ]
    """`redis://`, `rediss://`, `redis+socket://` or `amqp://`. Unset: an embedded Valkey under `home`."""
    host: str = "127.0.0.1"
    """Address the API and dashboard listen on."""
    port: int = Field(default=8787, ge=0, le=65_535)
    """Their port; 0 takes a free one."""
    session_max_s: float = Field(default=604_800.0, gt=0)
    """How long a browser stays signed in to the dashboard; revoking the key it signed in with ends it at once."""
    organization: str = "local"
    """Shown in job objects and in the names of fine-tuned models."""

    base_models: dict[str, BaseModelSetting] = Field(default_factory=dict)
    """Base models by name: a local directory with a Hugging Face causal LM and chat template, or a hub name; or an
    object with that as its `path`, and `chat_format`, `max_context_tokens`, `chat_template_kwargs`. JSON."""
    has_starter: bool = True
    """Offer the built-in `starter` policy as a base model; it is built on first use."""

    lease_ttl_s: float = Field(default=60.0, gt=0)
    """How long a silent worker keeps a job, and a heartbeat longer. The embedded form sets 8."""
    heartbeat_s: float = Field(default=15.0, gt=0)
    """How often a worker renews its lease; at least four times in `lease_ttl_s`. The embedded form sets 2."""
    reconcile_s: float = Field(default=5.0, gt=0)
    """How often lost jobs are looked for. The embedded form sets 2."""
    min_free_bytes: int = Field(default=256 << 20, ge=0)
    """What must be free on the disk of the runs before a trainer is started; until then its job is held."""
    train_slots: int = Field(default=1, ge=1)
    """Trainers running at once on one host."""
    eval_slots: int = Field(default=2, ge=1)
    """Runs of evals at once on one host; each keeps to such a part of what tools, graders and providers may get."""
    eval_samples_at_once: int = Field(default=16, ge=1)
    """Samples of one run of an eval that are graded at once; a model may take fewer."""
    max_launches_without_progress: int = Field(default=4, ge=1)
    """A job whose trainer died this often without finishing a step has failed."""
    trainer_grace_s: float = Field(default=10.0, ge=0)
    """How long a trainer that is asked to stop may take before it is killed."""
    trainer_silence_s: float = Field(default=3600.0, ge=0)
    """A trainer that reports nothing for so long, and is not held, is killed and started again; 0: never."""
    trainer_command: tuple[str, ...] = ()
    """What is started with a run directory as its last argument. JSON. Unset: our own trainer."""
    starter_command: tuple[str, ...] = ()
    """What builds the starter policy into the directory given as its last argument. JSON. Unset: our own builder."""

    keep_tokens: bool = True
    """Keep token ids and log-probabilities of every rollout of jobs that start from now on, as long as their job: 2 to
    6 bytes a token (docs/dashboard.md)."""

    baselines_max_s: float = Field(default=1800.0, gt=0)
    """How long a job's training may wait for all its baselines to be measured."""

    tool_timeout_s: float = Field(default=600.0, gt=0)
    """Deadline of one attempt of a tool call."""
    grader_timeout_s: float = Field(default=600.0, gt=0)
    """Deadline of one attempt of a grade."""
    max_retries: int = Field(default=3, ge=0)
    """Retries of one call to an endpoint, after the first attempt."""
    retry_total_s: float = Field(default=1800.0, ge=0)
    """All attempts of one call and the waits between them."""
    retry_first_wait_s: float = Field(default=0.5, ge=0)
    """First wait between attempts; doubles each time, with full jitter."""
    rollout_deadline_s: float = Field(default=3600.0, gt=0)
    """Deadline of one rollout, sampling, tools and grading together."""
    rollout_max_tokens: int = Field(default=4096, ge=1)
    """Tokens the policy may sample in one rollout."""
    max_calls_in_flight: int = Field(default=512, ge=1)
    """Concurrent calls to one endpoint at most."""
    max_call_bytes: int = Field(default=1_000_000, ge=1_000, le=16_000_000)
    """A call to an endpoint beyond this is not made; traces for graders are shortened to it."""
    max_reply_bytes: int = Field(default=1_000_000, ge=1_000, le=16_000_000)
    """A reply beyond this is not read: a tool's is a 413 to the model, a grader's a failure."""
    has_adaptive_limits: bool = True
    """Let calls in flight follow what each endpoint bears, with a circuit breaker, below `max_calls_in_flight`."""
    hold_excluded_share: float = Field(default=0.25, gt=0, le=1)
    """A step of which a larger share ended in endpoint failures is held until the endpoint recovers."""
    hold_max_s: float = Field(default=3600.0, ge=0)
    """A job that was held for longer at one go fails."""
    platform_failure_share: float = Field(default=0.25, ge=0, le=1)
    """A step of which the platform lost a larger share is rolled out anew; if that happens again, the job pauses."""
    tool_gateway_url: str | None = None
    """A tool gateway service (`python -m rft.tool_gateway`) that makes the calls. Unset: each trainer makes its own."""
    grader_gateway_url: str | None = None
    """A grader gateway service (`python -m rft.grader_gateway`) that grades. Unset: each trainer does."""
    gateway_token: str | None = None
    """What the gateway services ask their callers for."""
    rollout_workers: Literal["none", "celery"] = "none"
    """Who runs rollouts: each trainer its own (`none`), or workers on any host (`rft worker --queue rollouts`), which
    needs the engine `vllm` with servers of its own and both gateway services."""
    platform_url: str | None = None
    """Where trainers and rollout workers reach this API, e.g. `http://10.0.0.2:8787`. Unset: its host and port."""
    rollout_worker_shards: int = Field(default=4, ge=1)
    """How many shards one process of `rft worker` runs at a time, of 64 rollouts each; more of smaller ones."""
    judge_base_url: str | None = None
    """OpenAI-compatible server that answers for model graders, ending in `/v1`. Unset: such graders are refused."""
    judge_api_key: str | None = None
    """Its key."""
    judge_timeout_s: float = Field(default=120.0, gt=0)
    """Deadline of one call to the judge."""
    judge_max_concurrency: int = Field(default=64, ge=1)
    """Calls to the judge in flight at most."""
    rehearsal_max_rollouts: int = Field(default=2048, ge=1)
    """Rollouts of a rehearsal at most; a larger burst is played in part."""
    rehearsal_max_s: float = Field(default=300.0, gt=0)
    """A rehearsal that takes longer is broken off and reported as far as it came."""
    dry_run_grade_s: float = Field(default=20.0, gt=0)
    """What one grade of a python grader may take in a dry run: somebody waits for it. Jobs give it its own time."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that the API may be asked by (the `Host` header), beside `localhost`, loopback addresses, `RFT_HOST` and
    the host of `RFT_PLATFORM_URL`; others are refused. Unset: any, since `/v1` asks for a key. Gateway services without
    a token always check. JSON."""
    probe_timeout_s: float = Field(default=5.0, gt=0)
    """How long a tool or grader URL may take to answer when a job is created."""
    allow_loopback: bool = True
    """Whether tools and graders may live on this machine."""
    allow_cidrs: tuple[IPvAnyNetwork, ...] = ()
    """Private networks that tools and graders may live in, e.g. `["10.1.0.0/16"]`; there also without https. JSON."""

    learning_rate: float = Field(default=5e-5, gt=0)
    """Learning rate of the adapter at learning_rate_multiplier 1, for all base models but the starter."""
    engine: Annotated[str, _refused_by(_engine_problem, "engine")] = "transformers"
    """What samples: `transformers`, `vllm`, or `package.module:factory`."""
    vllm_servers: tuple[str, ...] = ()
    """vLLM servers that the engine `vllm` samples with, each by its own address, e.g. `["http://10.0.0.7:8000"]`.
    Unset: each trainer starts its own. JSON."""
    vllm_api_key: str | None = None
    """Their key."""
    vllm_python: Path | None = None
    """Python of an environment with vLLM, for servers of our own. Unset: what `rft engine install` has made."""
    vllm_max_context_tokens: int | None = Field(default=None, ge=1)
    """Prompt plus completion at most with the engine `vllm`. Unset: what the model allows, up to 16,384."""
    vllm_requests_at_once: int = Field(default=256, ge=1)
    """Requests that one vLLM server gets at once from one process that samples; others wait in that process's queue.
    With rollout workers: what it takes at once, divided by their processes. For `rft engine serve`: what it takes."""
    vllm_cpu_cache_gib: int = Field(default=1, ge=1)
    """Memory for cached conversations of a vLLM server of our own, on a CPU."""
    vllm_gpu_memory_share: float | None = Field(default=None, gt=0, le=1)
    """What a vLLM server of our own may take of a GPU's memory. Unset: beside an update on the same GPU, what that
    leaves; on a GPU of its own (`devices`), 0.9; of trainers on the CPU, 0.5 for all of them together; to answer chat,
    0.4."""
    serving_idle_s: float = Field(default=600.0, gt=0)
    """A model that nobody has asked for so long leaves the memory."""
    serving_models: int = Field(default=2, ge=1)
    """Base models that answer chat at a time for one API process, each with any number of its checkpoints. Several API
    processes on a host start so many each."""
    serving_start_s: float = Field(default=60.0, gt=0)
    """How long a request waits while its model is loaded; after that it is told to come again."""
    serving_requests_at_once: int = Field(default=64, ge=1)
    """Chat requests that one base model answers at a time."""
    serving_queue_s: float = Field(default=60.0, gt=0)
    """How long a chat request waits while another checkpoint of its base model answers."""
    serving_reserve_bytes: int = Field(default=1 << 30, ge=0)
    """Memory that stays free for training when a model is loaded to answer chat."""
    serving_cached_tokens: int = Field(default=4_000_000, ge=0)
    """Tokens of conversations that a base model's process remembers as they were sampled."""
    torch_threads: int = Field(default=2, ge=1)
    """Threads the trainer's tensor library uses."""
    devices: Annotated[str | None, AfterValidator(_devices)] = None
    """What a trainer on this host computes on, one rank on each: `train=0,1 vllm=2,3` for GPUs by their numbers,
    `train=0 vllm=0` where one trains and samples in turns, or `cpu:2`. Of several trainers at once (`RFT_TRAIN_SLOTS`),
    each has its own: `train=0 vllm=1; train=2 vllm=3`. Unset: one process, on the first GPU or else the CPU."""
    base_dtype: BaseDtype = BaseDtype.AUTO
    """What the base model's weights are in an update: `float32`, `bfloat16`, or `auto`: bfloat16 on a GPU where vLLM
    samples, else float32."""
    shard_base: ShardBase = ShardBase.AUTO
    """Whether each of several ranks (`devices`) keeps a part of every layer of the base model, and none all of it:
    `always`, `never`, or `auto`: where an update does not fit a rank's GPU otherwise."""
    micro_batch_tokens: int | None = Field(default=None, ge=1)
    """Tokens, padding included, that an update computes at once. Unset: found by the free memory. Changes no result
    beyond rounding."""
    max_importance_gap: float = Field(default=MAX_IMPORTANCE_GAP, gt=0)
    """A step on whose tokens the log-probabilities of trainer and engine differ by more on average is not trained on:
    its job is paused. Orders and `resume` may name another limit."""
    log_level: LogLevel = "INFO"
    """Level of our own log lines."""

    @property
    def base_model_paths(self) -> dict[str, str]:
        """Local directory or hub name of the registered base models, by name."""
        return {name: model.path for name, model in self.base_models.items()}

    @property
    def own_url(self) -> str:
        """Where our own processes reach the API, without a trailing slash."""
        if self.platform_url is not None:
            return self.platform_url.rstrip("/")
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def own_hosts(self) -> tuple[str, ...]:
        """What the API is called by, where the operator says it; empty: by any name."""
        if not self.allowed_hosts:
            return ()
        own = urlsplit(self.own_url).hostname
        return *self.allowed_hosts, self.host, *(() if own is None else (own,))

    @property
    def runs_dir(self) -> Path:
        """One run directory per job."""
        return self.home / "runs"

    @property
    def serving_dir(self) -> Path:
        """What the processes of this host that answer chat keep: one folder per base model. Other hosts may share
        `home`, and cannot reach them.
        """
        return self.home / "serving" / socket.gethostname()

    @property
    def files_dir(self) -> Path:
        """Uploaded and result files."""
        return self.home / "files"

    @property
    def starter_dir(self) -> Path:
        """The built starter policy, as a Hugging Face model directory."""
        return self.home / "starter"

    @property
    def egress(self) -> EgressSettings:
        """What holds for every call to a customer's endpoint."""
        return EgressSettings.model_validate(self, from_attributes=True)


class ClientSettings(BaseSettings):
    """What the command line, as a client of a platform, reads besides its options' own variables (docs/cli.md)."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    openai_base_url: Annotated[str | None, Field(default=None, validation_alias="OPENAI_BASE_URL")]
    """Where the platform is, as the official SDK reads it; counts where ours is not set."""
    openai_api_key: Annotated[str | None, Field(default=None, validation_alias="OPENAI_API_KEY")]
    """Sent only to `OPENAI_BASE_URL`."""


def client_settings() -> ClientSettings:
    """As the environment has them now."""
    return ClientSettings()  # pyright: ignore[reportCallIssue]


@cache
def settings() -> Settings:
    """The process's settings, read once. Raises BadSetting."""
    try:
        return Settings()  # pyright: ignore[reportCallIssue]
    except (SettingsError, ValidationError) as problem:
        raise bad_setting(Settings, problem) from problem


def settings_warnings() -> list[str]:
    """What the environment sets that no process of the platform reads: what is misspelt has no effect."""
    return unknown_variables(os.environ, Settings, ServiceSettings, others=_OTHER_VARIABLES)
