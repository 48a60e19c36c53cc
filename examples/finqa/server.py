"""A customer's tool server and grader over real company reports. Knows nothing of the platform but the wire contract.

python examples/finqa/server.py --data examples/finqa/data --port 8200
"""

import argparse
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from corpus import Corpus
from fastapi import FastAPI, HTTPException
from grading import credit


def create_app(corpus: Corpus) -> FastAPI:
    """Three tools and a grader."""
    app = FastAPI(title="FinQA tools")
    tools: dict[str, Callable[[dict[str, Any]], str]] = {
        "search": lambda arguments: corpus.search(str(arguments["query"]), int(arguments.get("page", 1))),
        "list": lambda arguments: corpus.list(str(arguments.get("path", ""))),
        "cat": lambda arguments: corpus.cat(str(arguments["path"])),
    }

    @app.get("/health")
    async def health() -> dict[str, int]:
        return {"pages": len(corpus.pages)}

    @app.post("/tools")
    async def call_tool(call: dict[str, Any]) -> dict[str, str]:
        tool = tools.get(call["name"])
        if tool is None:
            raise HTTPException(404, f"no tool named {call['name']}")
        try:
            output = tool(json.loads(call["arguments"]))
        except (KeyError, TypeError, ValueError) as error:
            output = f"Error: bad arguments ({error})"
        return {"type": "function_call_output", "id": call["id"], "call_id": call["call_id"], "output": output}

    @app.post("/grade")
    async def grade(body: dict[str, Any]) -> dict[str, float]:
        return {"score": credit(body["sample"]["output_text"] or "", body["item"]["exe_ans"])}

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data", help="folder with reports.jsonl")
    parser.add_argument("--port", type=int, default=8200, help="0 takes a free one")
    parser.add_argument("--port-file", type=Path, help="write the port here once listening")
    args = parser.parse_args()
    # Named TCP in so many words: else asyncio leaves Nagle's algorithm on, and every reply waits 40 ms for an ACK.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", args.port))
    listener.listen(2048)
    app = create_app(Corpus(args.data))
    if args.port_file:
        args.port_file.write_text(str(listener.getsockname()[1]))
    print(f"serving on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
