"""`rft worker`: what a host without the platform itself runs for it."""

from enum import StrEnum
from typing import Annotated

import typer

from rft.platform.cli.arguments import HomeOption


class WorkerQueue(StrEnum):
    """What a worker takes from."""

    ROLLOUTS = "rollouts"


def worker(
    queue: Annotated[WorkerQueue, typer.Option("--queue", help="What to work on.")] = WorkerQueue.ROLLOUTS,
    processes: Annotated[int, typer.Option("--processes", min=1, help="Processes on this host.")] = 1,
    home: HomeOption = None,
) -> None:
    """Run rollouts for the jobs of a platform, on any host that reaches it; Ctrl-C stops it.

    Needs BROKER_URL, RFT_GATEWAY_TOKEN and RFT_VLLM_API_KEY as the platform has them, and the base models' tokenizers
    under the paths that they have there.
    """
    import logging

    from rft.platform.cli.session import chosen_settings, give_up
    from rft.platform.embedded.home import Home
    from rft.platform.embedded.valkey import EmbeddedValkey
    from rft.platform.worker.rollout_processes import RolloutProcesses

    del queue
    settings = chosen_settings(home)
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    broker_url = settings.broker_url
    if broker_url is None:
        here = Home(settings.home)
        if not here.is_serving():
            give_up(f"BROKER_URL is not set, and no platform runs in {here.path} whose queue this could be")
        broker_url = EmbeddedValkey(here).url()
    RolloutProcesses(settings, broker_url, processes).run()
