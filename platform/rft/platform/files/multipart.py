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


@dataclass(frozen=True, slots=True)
class PartBytes:
    """More of the part that began last."""

    data: bytes


@dataclass(frozen=True, slots=True)
class PartEnded:
    """All of it was told."""


PartEvent: TypeAlias = PartBegan | PartBytes | PartEnded


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
    form = _Form(options[b"boundary"])
    async for chunk in body:
        form.feed(chunk)
        while form.events:
            yield form.events.popleft()
    if not form.is_complete:
        raise _malformed("it ends in the middle")


class _Form:
    """The parser's callbacks, turned into events."""

    def __init__(self, boundary: bytes) -> None:
        self.events: deque[PartEvent] = deque()
        self.is_complete = False
        self._header = b""
        self._value = b""
        self._disposition = b""
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_part_data,
                    "on_part_end": self._on_part_end,
                    "on_end": self._on_end,
                },
            )
        except FormParserError as error:
            raise _malformed(str(error)) from error

    def feed(self, chunk: bytes) -> None:
        """The next bytes. Raises BadRequest."""
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise _malformed(str(error)) from error

    def _on_part_begin(self) -> None:
        self._disposition = b""

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]
        self._refuse_long_header()

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._refuse_long_header()

    def _refuse_long_header(self) -> None:
        if len(self._header) + len(self._value) > _MAX_HEADER_BYTES:
            raise _malformed("a part's header is too long")

    def _on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        if b"name" not in options:
            raise _malformed("a part has no name")
        filename = options.get(b"filename")
        # Browsers and the SDKs' HTTP client write a quotation mark in a name as the HTML standard has it.
        named = None if filename is None else _text(filename).replace("%22", '"')
        self.events.append(PartBegan(_text(options[b"name"]), named))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        self.events.append(PartBytes(data[start:end]))

    def _on_part_end(self) -> None:
        self.events.append(PartEnded())

    def _on_end(self) -> None:
        self.is_complete = True


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _malformed(why: str) -> BadRequest:
    return BadRequest(f"We could not parse the form of your request: {why}.", code="invalid_form")
