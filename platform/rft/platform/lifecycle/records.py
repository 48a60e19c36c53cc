"""What a job's row holds beside plain columns: why it failed, waits or is paused."""

from typing import Literal

from rft.core.base import Record
from rft.core.chat_spec import JobChat
from rft.core.estimates import RewardDifference, RewardEstimate
from rft.core.failure import Stage
from rft.platform.store.stored_json import StoredJson

FILE_PARAMS = ("training_file", "validation_file", "test_file")
"""The fields of an order that name its files."""


class FinalFigures(Record):
    """What a job that succeeded came to, as far as it was measured where nothing was chosen."""

    rows: Literal["test", "validation"]
    """The test file's rows, or the validation rows, the best checkpoint with seeds that did not choose it."""
    step: int
    """Of the best checkpoint; 0: none did better than the untrained policy."""
    reward: RewardEstimate | None
    """None where nothing was graded, or nothing tells how rewards spread: see `estimate_reward`."""
    untrained: RewardEstimate | None
    """On the same rows."""
    gain: RewardDifference | None
    """Row by row; None for step 0, and where there is no estimate."""
    selected_at: float | None
    """The validation reward that chose the checkpoint: the best of several, and so better than it is."""

    @property
    def is_improvement(self) -> bool:
        """Beyond what chance explains."""
        return self.gain is not None and self.gain.is_improvement


class BaselineFigures(Record):
    """What another model earned on a job's validation rows, with its tools and grader, before it was trained."""

    model: str
    """One of ours, or `PROVIDER/MODEL`."""
    reward: RewardEstimate | None
    """Over the rollouts that were graded; None where nothing can be told."""
    rollouts: int
    """That ended, graded or not."""
    graded: int
    failures: dict[str, int]
    """Rollouts in no figure, by the code of their failure."""
    error: str | None
    """Why it was not measured to the end."""
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    """As the model's server counts them."""
    turns_without_usage: int
    """Turns whose tokens nobody told: they are in no figure."""
    tool_calls: int
    cost: float | None
    """Of these tokens, by the provider's prices; None where they are not known."""
    duration_s: float


class ChosenCheckpoint(Record):
    """The best checkpoint of a run, and what chose it."""

    step: int
    """0: the untrained policy."""
    validation_reward: float | None
    has_test_file: bool


class JobError(Record):
    """Why a job failed."""

    code: str
    message: str
    param: str | None = None


class JobHold(Record):
    """What a held job waits for."""

    endpoint: str
    """In words, e.g. `tool 'search'`."""
    stage: Stage
    reason: str
    since: float
    """Unix time in seconds."""
    step: int


class PauseReason(Record):
    """Why the platform paused a job that does not go on by itself."""

    code: str
    message: str
    since: float
    """Unix time in seconds."""
    step: int | None
    """The last step that is done; None when there is none."""


class SlotHolder(Record):
    """A job that has a slot which another one waits for."""

    job: str
    hold: str | None
    """The endpoint that it waits for itself, in words, where it is held."""


class NewJob(Record):
    """An order that passed every check."""

    id: str
    model: str
    base_model_path: str
    chat: JobChat | None = None
    """None in jobs of releases before it was kept: what is registered now counts for them."""
    training_file: str
    validation_file: str | None
    test_file: str | None = None
    suffix: str | None
    seed: int
    metadata: dict[str, str] | None
    method: StoredJson
    """As the customer wrote it, header values redacted."""
    request: StoredJson
    """The whole body, header values redacted."""
    secrets: bytes | None
    """Sealed RunSecrets."""

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """The files it has, each with the field of the order that names it."""
        given = ((param, getattr(self, param)) for param in FILE_PARAMS)
        return tuple((param, file_id) for param, file_id in given if file_id is not None)
