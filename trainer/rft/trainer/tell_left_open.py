"""`python -m rft.trainer.tell_left_open RUN_DIR`: for a run that is over and whose trainers left rollouts open.

They were killed, or customers' servers could not take an end. Tells those ends, as a next trainer would have done;
secrets as JSON on standard input. Loads no model, writes no event.
"""

import asyncio
import logging
import random
import sys
from pathlib import Path

from pydantic import ValidationError

from rft.core.errors import RftError
from rft.core.secret_urls import put_secret_urls
from rft.core.spec import RunSecrets, RunSpec
from rft.rollouts.connections import ConnectionOptions, open_tool_connections
from rft.run_directory import layout
from rft.run_directory.files import read_spec
from rft.run_directory.lock import locked
from rft.run_directory.open_rollouts import OpenRolloutsFile
from rft.trainer.events import EventWriter
from rft.trainer.given_secrets import read_secrets
from rft.trainer.run import LOCK_PATIENCE_S

log = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """0 when nothing is open any more, 1 when some ends could not be told in time, 2 when it could not even begin."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        log.error("usage: python -m rft.trainer.tell_left_open RUN_DIR")
        return 2
    run_dir = Path(arguments[0])
    try:
        secrets = read_secrets()
    except ValidationError:
        log.error("standard input is not the JSON of the run's secrets")  # Never quoted: it may hold them.
        return 2
    try:
        with locked(run_dir, patience_s=LOCK_PATIENCE_S):
            return _tell(run_dir, secrets)
    except RftError as error:
        log.error("%s", error)
        return 2


def _tell(run_dir: Path, secrets: RunSecrets) -> int:
    open_rollouts = OpenRolloutsFile(run_dir / layout.OPEN_ROLLOUTS)
    if not open_rollouts.left:
        return 0
    spec = read_spec(run_dir)
    tools, _ = put_secret_urls(spec.tools, spec.grader, secrets)
    events = EventWriter(run_dir / layout.EVENTS)
    launch = events.launches + 1
    events.close()
    try:
        asyncio.run(_ends_told(spec.model_copy(update={"tools": tools}), secrets, open_rollouts, launch))
    finally:
        open_rollouts.shut()
    return 1 if OpenRolloutsFile(run_dir / layout.OPEN_ROLLOUTS).left else 0


async def _ends_told(spec: RunSpec, secrets: RunSecrets, open_rollouts: OpenRolloutsFile, launch: int) -> None:
    """To a gateway service this is the next trainer of the run: it ends what it still holds of the last one, too."""
    options = ConnectionOptions(launch=launch, open_rollouts=open_rollouts, are_ends_awaited=True)
    connections = await open_tool_connections(spec, secrets, options)
    in_a_hurry = asyncio.Event()
    in_a_hurry.set()
    try:
        # A few at once: those of a server that hangs would be the first with every try, and the others never come.
        left = random.sample(open_rollouts.left, len(open_rollouts.left))
        await connections.tell_left_open(left, open_rollouts.outcomes)
    finally:
        await connections.aclose(in_a_hurry)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
