"""In place of vLLM's Python: a server on its wire that knows nothing of the model; `model` says what goes wrong."""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from rft.testing.loopback import LoopbackEndpoint
from rft.testing.vllm_server import ScriptedVllm
from rft.vllm_server.release import VERSION

DIES = "dies"


def install_stub(folder: Path, kind: str) -> Path:
    """An executable that takes vLLM's arguments."""
    python = folder / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.e2e.trainer.stub_vllm {kind} "$@"\n')
    python.chmod(0o755)
    return python


async def serve(port: int, model: str) -> None:
    """Until it is killed."""
    key = os.environ["VLLM_API_KEY"]
    server = ScriptedVllm(version=VERSION, root=model, api_key=key)
    async with LoopbackEndpoint(server, port=port):
        print(f"pid {os.getpid()}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--model")
    if sys.argv[1] == DIES:
        sys.exit("no memory for the cache")
    arguments, _ = parser.parse_known_args(sys.argv[2:])
    asyncio.run(serve(arguments.port, arguments.model))
