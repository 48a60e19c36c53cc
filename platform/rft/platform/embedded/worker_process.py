"""The worker's process: `python -m rft.platform.embedded.worker_process`."""

import sys

from celery.__main__ import main as celery_main

from rft.core.open_files import allow_many_open_files
from rft.platform.settings import settings
from rft.platform.worker.tasks import worker_arguments


def main() -> None:
    """Work until SIGTERM: then tasks stop their trainers and end."""
    wanted = settings()
    if missing := [name for name in ("DATABASE_URL", "BROKER_URL") if getattr(wanted, name.lower()) is None]:
        sys.exit(f"{' and '.join(missing)} must be set: it would take tasks that it cannot do")
    allow_many_open_files()  # Evals and rehearsals call endpoints from this process's children.
    sys.argv[1:] = worker_arguments(wanted)
    celery_main()


if __name__ == "__main__":
    main()
