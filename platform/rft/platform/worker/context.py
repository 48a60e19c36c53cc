"""What a task needs from the process it runs in."""

from collections.abc import Callable
from dataclasses import dataclass

from rft.platform.queue.publishing import Enqueuer
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.platform.store.file_store import FileStore
from rft.platform.store.secret_box import SecretBox

NOT_TO_BE_RUN = "not to be run now"
NOT_TO_BE_VALIDATED = "not to be validated"
"""What comes of a message that finds nothing to do: its row is another's, is over or waits for room."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """Opened once per task."""

    settings: Settings
    database: Database
    file_store: FileStore
    secret_box: SecretBox
    is_stopping: Callable[[], bool] = _never
    """Whether this worker is shutting down."""
    enqueuer: Enqueuer | None = None
    """None: Celery."""
