"""`python -m rft.trainer RUN_DIR`: one run, secrets as JSON on standard input (nothing there means none)."""

import gc
import os
import sys
from pathlib import Path

from rft.core.open_files import allow_many_open_files
from rft.engines.import_env import prepare_imports
from rft.trainer.ranks.processes import EXIT_RANK_LOST, RankLost, end_with_launcher
from rft.trainer.ranks.world import launched_world, use_own_gpu


def main(arguments: list[str]) -> int:
    """0 when the run succeeded or was stopped, 1 when it failed, 2 when it could not even begin, 75 on a full disk, 76
    when one of its ranks died. Of a rank beside the first: 0."""
    import logging

    # Importing makes millions of objects and hardly any garbage: looking for some costs a tenth of the time.
    gc.disable()
    if (world := launched_world(os.environ)) is not None:
        end_with_launcher()
        if world.rank > 0:
            from rft.trainer.ranks.process import compute_as

            use_own_gpu(os.environ, world, devices=None)
            return compute_as(world)  # Standard input, and what it may hold, is rank 0's.
    prepare_imports()
    allow_many_open_files()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        logging.error("usage: python -m rft.trainer RUN_DIR")
        return 2
    from pydantic import ValidationError

    from rft.run_directory.lock import RunDirectoryBusy
    from rft.scratch.disk import EXIT_DISK_FULL, is_disk_full
    from rft.trainer.given_secrets import read_secrets
    from rft.trainer.run import DiskFull, run

    try:
        secrets = read_secrets()
    except ValidationError:
        logging.error("standard input is not the JSON of the run's secrets")  # Never quoted: it may hold them.
        return 2
    try:
        ended = run(Path(arguments[0]), secrets, on_loaded=_settle)
    except RunDirectoryBusy as error:
        logging.error("%s", error)
        return 2
    except RankLost as lost:
        logging.error("%s; the run goes on from its last complete checkpoint with its next launch", lost)
        return EXIT_RANK_LOST
    except Exception as error:
        if not isinstance(error, DiskFull) and not is_disk_full(error):
            raise
        logging.error("the disk that holds the run is full: %s", error)
        return EXIT_DISK_FULL
    return 1 if ended.outcome == "failed" else 0


def _settle() -> None:
    """From now on the run makes the objects."""
    from rft.core.gc_tuning import collect_rarely

    gc.enable()
    collect_rarely()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
