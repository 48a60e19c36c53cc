"""Forms written by hand."""

BOUNDARY = "the-boundary"
FORM = f"multipart/form-data; boundary={BOUNDARY}"
END = f"--{BOUNDARY}--\r\n".encode()


def part(name: str, content: bytes, *, filename: str | None = None) -> bytes:
    """One part."""
    file = f'; filename="{filename}"' if filename is not None else ""
    head = f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="{name}"{file}\r\n\r\n'
    return head.encode() + content + b"\r\n"


def opened(purpose: str) -> bytes:
    """A form up to the first byte of its file."""
    return part("purpose", purpose.encode()) + part("file", b"", filename="large.jsonl").removesuffix(b"\r\n")
