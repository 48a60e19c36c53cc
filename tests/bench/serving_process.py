"""A serving process that has no model: it replays tokens at a fixed rate, each with the time at which it was sent.

`python -m tests.bench.serving_process FOLDER --tokens 200 --rate 40`: listens, says so in the folder, serves until it
is terminated. The clock is the machine's, so that whoever reads a token knows how old it is.
"""

import argparse
import asyncio
import os
import time
from pathlib import Path

import uvloop

from rft.serving_wire.endpoint_file import endpoint_file
from rft.serving_wire.lines import LONGEST_LINE_BYTES, read_line, write_line
from rft.serving_wire.records import Choice, CompletionRequest, Done, Prompt, ServingEndpoint, Text

TOKEN = "bench"
PROMPT_IDS = tuple(range(300))


async def _replay(writer: asyncio.StreamWriter, tokens: int, rate: float) -> None:
    await write_line(
        writer,
        Prompt(prompt_tokens=len(PROMPT_IDS), remembered_tokens=0, is_rendered_again=False, token_ids=PROMPT_IDS),
    )
    began = time.monotonic()
    for number in range(1, tokens + 1):
        await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
        await write_line(writer, Text(index=0, text=f" {time.monotonic():.6f}"))
    choice = Choice(
        index=0,
        finish_reason="stop",
        content="",
        reasoning="",
        tool_calls=(),
        completion_tokens=tokens,
        reasoning_tokens=0,
        token_ids=tuple(range(tokens)),
    )
    await write_line(writer, choice)
    await write_line(writer, Done())


async def _serve(folder: Path, tokens: int, rate: float) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await read_line(reader)
            if line is not None and CompletionRequest.model_validate_json(line).token == TOKEN:
                await _replay(writer, tokens, rate)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=LONGEST_LINE_BYTES, backlog=512)
    port = int(server.sockets[0].getsockname()[1])
    with endpoint_file(folder, ServingEndpoint(port=port, token=TOKEN, pid=os.getpid())):
        print("listening", flush=True)
        async with server:
            await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    uvloop.run(_serve(options.folder, options.tokens, options.rate))
