"""What a job's row holds beside plain columns: why it failed, waits or is paused."""

from rft.core.base import Record
from rft.core.chat_spec import JobChat
from rft.core.failure import Stage
from rft.platform.store.stored_json import StoredJson


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
    suffix: str | None
    seed: int
    metadata: dict[str, str] | None
    method: StoredJson
    """As the customer wrote it, header values redacted."""
    request: StoredJson
    """The whole body, header values redacted."""
    secrets: bytes | None
    """Sealed RunSecrets."""
