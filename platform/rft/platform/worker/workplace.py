"""What a task needs from the process it runs in."""

from collections.abc import Callable
from dataclasses import dataclass

from rft.platform.files.storage import FileStore
from rft.platform.settings import Settings
from rft.platform.store.bell import Ringer
from rft.platform.store.database import Database
from rft.platform.store.secret_box import SecretBox


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Workplace:
    """Opened once per task."""

    settings: Settings
    database: Database
    file_store: FileStore
    secret_box: SecretBox
    is_stopping: Callable[[], bool] = _never
    """Whether this worker is shutting down."""
    ringer: Ringer | None = None
    """None: Celery."""
