"""A checkpoint's adapter as a zip that goes out while it is made: what PEFT, transformers and vLLM read, and a card."""

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

_CARD = "README.md"
_REQUIRED = ("adapter_config.json", "adapter_model.safetensors")
FILES = (
    *_REQUIRED,
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("chat_template.jinja", "chat.json"),
)
"""Without what only a resumed training reads."""
_CHUNK_BYTES = 1 << 20


def open_adapter(directory: Path, stack: ExitStack) -> Sequence[tuple[str, BinaryIO]]:
    """Its files, open: whoever deletes the checkpoint meanwhile breaks no download. Raises FileNotFoundError."""
    there = [name for name in FILES if name in _REQUIRED or (directory / name).is_file()]
    return [(name, stack.enter_context((directory / name).open("rb"))) for name in there]


def archive(files: Sequence[tuple[str, BinaryIO]], card: str, stack: ExitStack) -> Iterator[bytes]:
    """The zip in pieces; closes the stack at its end, however it ends."""
    with stack:
        pieces = _Pieces()
        with zipfile.ZipFile(pieces, "w") as target:
            for name, source in files:
                with target.open(name, "w", force_zip64=True) as entry:
                    while chunk := source.read(_CHUNK_BYTES):
                        entry.write(chunk)
                        yield pieces.taken()
            target.writestr(_CARD, card)
        yield pieces.taken()


class _Pieces(RawIOBase):
    """Where a zip is written to; what was written is taken away piece by piece."""

    def __init__(self) -> None:
        super().__init__()
        self._written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._written += data
        return len(data)

    def taken(self) -> bytes:
        """All since the last time."""
        piece = bytes(self._written)
        self._written.clear()
        return piece
