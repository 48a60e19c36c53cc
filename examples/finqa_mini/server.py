"""A customer's tool server and grader: `search`, `list` and `cat` over company reports, and an endpoint grader.

    python examples/finqa_mini/server.py --port 8080

It knows nothing of the platform that calls it; it needs only FastAPI and uvicorn.
"""

import argparse
import contextlib
import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import uvicorn
from corpus import Library, write_reports
from fastapi import FastAPI, Request, Response
from faults import Faults, ResettableProtocol, fail
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

ANSWER = re.compile(r"Answer: \w+: (-?\d+(?:\.\d+)?)\s*$")
CLOSE = 0.05


class FunctionCall(BaseModel):
    """What the platform posts when the agent calls a tool. It also sends the dataset row; this server ignores it."""

    name: str
    arguments: str | dict[str, object]
    call_id: str
    id: str | None = None
    trace_id: str = ""


class Sample(BaseModel):
    """The part of the agent's last turn that the grader reads."""

    output_text: str | None = None


class Item(BaseModel):
    """The part of the dataset row that the grader reads."""

    answer: Annotated[float, Field(allow_inf_nan=False)]


class GradeRequest(BaseModel):
    """What the platform posts when a rollout has ended."""

    sample: Sample
    item: Item
    trace_id: str = ""


def grade(text: str, answer: float) -> float:
    """1 for the exact number after `Answer: metric:`, 0.5 within 5 %, else 0."""
    match = ANSWER.search(text)
    if match is None:
        return 0.0
    error = abs(float(match[1]) - answer)
    return 1.0 if error == 0 else 0.5 if error <= CLOSE * abs(answer) else 0.0


def argument(call: FunctionCall, name: str) -> str | None:
    """The one string argument of a call; None when it is not there."""
    try:
        arguments = json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments
        value = arguments[name]
    except (ValueError, LookupError, TypeError):
        return None
    return value if isinstance(value, str) else None


def create_app(library: Library, faults: Faults) -> FastAPI:
    """The server's routes."""
    app = FastAPI(title="finqa-mini")
    tools: dict[str, tuple[str, Callable[[str], str]]] = {
        "search": ("query", library.search),
        "list": ("path", library.list),
        "cat": ("path", library.cat),
    }

    @app.get("/health")
    async def health() -> dict[str, object]:  # pyright: ignore[reportUnusedFunction]
        return {"status": "ok", "reports": len(library)}

    @app.post("/tools")
    @app.post("/tools/{path_name}")
    async def call_tool(  # pyright: ignore[reportUnusedFunction]
        call: FunctionCall, request: Request, path_name: str | None = None
    ) -> Response:
        """One URL for all tools, or one each: both are common."""
        if kind := faults.kind(call.trace_id):
            return await fail(kind, request)
        name = path_name or call.name
        if name not in tools:
            return JSONResponse({"error": f"there is no tool {name!r}"}, status_code=404)
        parameter, run = tools[name]
        value = argument(call, parameter)
        if value is None:
            return JSONResponse({"error": f"{name} needs the string argument {parameter!r}"}, status_code=400)
        output = run(value)
        return JSONResponse({"type": "function_call_output", "call_id": call.call_id, "id": call.id, "output": output})

    @app.post("/grade")
    async def grade_rollout(body: GradeRequest, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        if kind := faults.kind(body.trace_id):
            return await fail(kind, request)
        return JSONResponse({"score": grade(body.sample.output_text or "", body.item.answer)})

    return app


def serve(app: FastAPI, host: str, port: int, port_file: Path | None) -> None:
    """Serve until SIGINT or SIGTERM. The port file appears once connections are accepted."""
    # Named TCP in so many words: else asyncio leaves Nagle's algorithm on, and every reply waits 40 ms for an ACK.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(2048)
    # Only asyncio's own loop hands out the sockets that `faults` resets.
    config = uvicorn.Config(app, http=ResettableProtocol, loop="asyncio", access_log=False, log_level="warning")
    # uvicorn raises the signal again after a clean shutdown; for a script that is not an error.
    with contextlib.suppress(KeyboardInterrupt):
        if port_file is not None:
            partial = port_file.with_name(f"{port_file.name}.{os.getpid()}")
            partial.write_text(str(listener.getsockname()[1]))
            partial.replace(port_file)
        print(f"serving on http://{host}:{listener.getsockname()[1]}", flush=True)
        uvicorn.Server(config).run(sockets=[listener])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one")
    parser.add_argument("--port-file", type=Path, help="file that receives the port")
    parser.add_argument("--faults", type=float, default=0.0, help="share of rollouts this server is broken for")
    options = parser.parse_args()
    serve(create_app(Library(write_reports()), Faults(options.faults)), options.host, options.port, options.port_file)


if __name__ == "__main__":
    main()
