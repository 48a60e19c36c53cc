"""`python -m rft.serving`: answers chat with the base model of the `ServingSpec` on its standard input.

It writes `endpoint.json` into the folder of the spec once it listens, and ends by itself when nobody asks any more.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from rft.engines.import_env import prepare_imports

if __name__ == "__main__":
    prepare_imports()

from rft.core.devices import hide_gpus
from rft.core.errors import RunFailed, RunPaused
from rft.core.gc_tuning import collect_rarely
from rft.core.spec import Engine
from rft.serving.chats import Chats
from rft.serving.completions import Completions
from rft.serving.opened_engine import open_serving_engine
from rft.serving.policies import ServedPolicies
from rft.serving.remembered import RememberedConversations
from rft.serving.server import CompletionServer
from rft.serving_wire.endpoint_file import endpoint_file
from rft.serving_wire.records import ServingEndpoint, ServingSpec

_BEHIND_TRAINING = 10
"""Niceness: where both want the processor, a trainer gets nearly all of it."""


async def serve(spec: ServingSpec) -> None:
    """Until it is idle for too long, or SIGTERM. Raises RunFailed, RunPaused where the model cannot be served."""
    chats = Chats(spec.base_model, spec.chat)
    engine = open_serving_engine(spec, chats.of(None, None))
    policies = ServedPolicies(engine, queue_s=spec.queue_s)
    completions = Completions(engine, chats, policies, RememberedConversations(spec.cached_tokens))
    server = CompletionServer(spec, completions)
    loop, folder = asyncio.get_running_loop(), Path(spec.folder)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    collect_rarely()  # A full collection that looks at all that is loaded would hold up every stream.
    try:
        port = await server.start()
        with endpoint_file(folder, ServingEndpoint(port=port, token=spec.token, pid=os.getpid())):
            await server.run()
    finally:
        await policies.aclose()
        await engine.close()


def main() -> None:
    """Serve; a model that cannot be served is told in one line."""
    spec = ServingSpec.model_validate_json(sys.stdin.read())
    os.nice(_BEHIND_TRAINING)
    if spec.engine == Engine.TRANSFORMERS:
        hide_gpus(os.environ)  # It samples on the CPU; libraries would look at a GPU that a job has filled.
    try:
        asyncio.run(serve(spec))
    except (RunFailed, RunPaused) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
