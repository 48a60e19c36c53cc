"""A `multipart/form-data` body as it arrives: nothing of it is gathered, on disk or in memory."""

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TypeAlias

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from rft.platform.api.errors import BadRequest

_MAX_HEADER_BYTES = 8192


@dataclass(frozen=True, slots=True)
class PartBegan:
    """The next field or file of the form."""

    name: str
    filename: str | None
    """None: a plain field."""


PartEvent: TypeAlias = PartBegan | bytes | None
"""A part begins, has so many more bytes, ends."""


async def read_parts(
    content_type: str, body: AsyncIterator[bytes], *, file_field: str = "file"
) -> AsyncIterator[PartEvent]:
    """The form's parts in order; `file_field` names the one that holds its file. Raises BadRequest for a body that is
    no whole form."""
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise BadRequest(
            f"Missing required parameter: '{file_field}'. Send it in a multipart/form-data body.",
            param=file_field,
            code="missing_required_parameter",
        )
    form = _Form()
    try:
        parser = MultipartParser(
            options[b"boundary"],
            {
                "on_header_field": form.on_header_field,
                "on_header_value": form.on_header_value,
                "on_header_end": form.on_header_end,
                "on_headers_finished": form.on_headers_finished,
                "on_part_data": lambda data, start, end: form.events.append(data[start:end]),
                "on_part_end": lambda: form.events.append(None),
                "on_end": form.on_end,
            },
        )
        async for chunk in body:
            parser.write(chunk)
            while form.events:
                yield form.events.popleft()
    except FormParserError as error:
        raise _malformed(str(error)) from error
    if not form.is_complete:
        raise _malformed("it ends in the middle")


class _Form:
    """The parser's callbacks, turned into events."""

    def __init__(self) -> None:
        self.events: deque[PartEvent] = deque()
        self.is_complete = False
        self._header = self._value = self._disposition = b""

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]
        self._refuse_long_header()

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._refuse_long_header()

    def _refuse_long_header(self) -> None:
        if len(self._header) + len(self._value) > _MAX_HEADER_BYTES:
            raise _malformed("a part's header is too long")

    def on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def on_headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._disposition = b""
        if b"name" not in options:
            raise _malformed("a part has no name")
        filename = options.get(b"filename")
        # Browsers and the SDKs' HTTP client write a quotation mark in a name as the HTML standard has it.
        named = None if filename is None else _text(filename).replace("%22", '"')
        self.events.append(PartBegan(_text(options[b"name"]), named))

    def on_end(self) -> None:
        self.is_complete = True


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _malformed(why: str) -> BadRequest:
    return BadRequest(f"We could not parse the form of your request: {why}.", code="invalid_form")
