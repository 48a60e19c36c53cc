"""The API on a real socket, the official SDK's shortcuts, and the orders tests send."""

import asyncio
import io
import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from openai import AsyncOpenAI
from openai.types import FileObject

from rft.platform.api.http_protocol import HttpProtocol
from rft.platform.app import create_app
from rft.platform.queue.messages import TaskMessage
from rft.platform.settings import Settings

START_DEADLINE_S = 60.0
TOOLS = [{"type": "function", "function": {"name": name}} for name in ("search", "cat")]
ROW = json.dumps({"messages": [{"role": "user", "content": "How much?"}], "tools": TOOLS, "answer": 7}).encode() + b"\n"
EXACT: Any = {
    "type": "string_check",
    "name": "exact",
    "input": "{{sample.output_text}}",
    "reference": "{{item.answer}}",
    "operation": "eq",
}
"""The simplest grader there is."""


@dataclass(slots=True)
class ReceivedMessages:
    """Gets every message; refuses them while it is broken."""

    received: list[TaskMessage] = field(default_factory=list[TaskMessage])
    is_broken: bool = False

    def __call__(self, message: TaskMessage) -> None:
        if self.is_broken:
            raise ConnectionRefusedError("no broker here")
        self.received.append(message)


@dataclass(frozen=True, slots=True)
class Api:
    """A running API."""

    url: str
    """Without `/v1`."""
    key: str
    settings: Settings
    messages: ReceivedMessages


class _PromptServer(uvicorn.Server):
    """Stops when it is told to, where uvicorn looks ten times a second whether it is to."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        if not await self.on_tick(0):
            await self._told.wait()

    def stop(self) -> None:
        """From another thread."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # its loop has ended by itself
                self._loop.call_soon_threadsafe(self._told.set)


class Served:
    """uvicorn in a thread of its own, so that it takes no signals and no loop from the test."""

    def __init__(
        self, settings: Settings, enqueue: Callable[[TaskMessage], None], *, web_assets: Path | None = None
    ) -> None:
        app = create_app(settings, enqueuer=enqueue, has_reconciler=False, web_assets=web_assets)
        self._server = _PromptServer(
            uvicorn.Config(app, http=HttpProtocol, log_config=None, timeout_graceful_shutdown=5)
        )
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})

    def __enter__(self) -> int:
        self._thread.start()
        deadline = time.monotonic() + START_DEADLINE_S
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            assert time.monotonic() < deadline, "the server did not start in time"
            time.sleep(0.01)
        return self._socket.getsockname()[1]

    def __exit__(self, *_: object) -> None:
        self._server.stop()
        self._thread.join(120)
        self._socket.close()
        assert not self._thread.is_alive()


async def upload(client: AsyncOpenAI, content: bytes = ROW, *, name: str = "train.jsonl") -> FileObject:
    """A file for fine-tuning."""
    return await client.files.create(file=(name, io.BytesIO(content)), purpose="fine-tune")


async def collect(pages: Any) -> list[Any]:
    """All objects of all pages, as the SDK iterates them."""
    return [entry async for entry in pages]


def changed(document: Any, fields: dict[str, Any]) -> Any:
    """The document with other values in some fields."""
    return {**document, **fields}
