"""`python -m rft.trainer.ranks.process STORE`: a rank that rank 0 starts on its own host. It gets no secrets."""

import logging
import os
import signal
import sys
from pathlib import Path

from rft.engines.import_env import prepare_imports
from rft.trainer.ranks.processes import end_with_input
from rft.trainer.ranks.world import World, hide_launch, launched_world


def main() -> int:
    """0 once rank 0 has ended."""
    end_with_input()
    world = launched_world(os.environ)
    assert world is not None, "rank 0 says which rank this is"
    return compute_as(world, Path(sys.argv[1]))


def compute_as(world: World, store: Path | None = None) -> int:
    """Be that rank, until rank 0 ends. `store`: the file where ranks meet that rank 0 started."""
    for number in (signal.SIGTERM, signal.SIGINT):  # They are for all ranks; rank 0 says when the others end.
        signal.signal(number, signal.SIG_IGN)
    prepare_imports()
    hide_launch(os.environ)
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s %(levelname)s rank {world.rank}: %(message)s")
    from rft.trainer.ranks.other_rank import compute_until_end

    compute_until_end(world, store)
    return 0


if __name__ == "__main__":
    sys.exit(main())
