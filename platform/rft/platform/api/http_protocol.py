"""HTTP/1.1 read by httptools, for half of h11's work, with the limit on headers and trailers that h11 has."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD_BYTES = 64 << 10
"""Of request line and headers, of trailers, or of what stands before a chunk: all of it is kept in memory before
anybody knows who sends it. One read may exceed it."""


class HttpProtocol(HttpToolsProtocol):
    """Refuses a request whose headers or trailers do not end, where httptools would keep all of them."""

    _unfinished_bytes = 0
    """What came since a head or a piece of a body was last handed on."""

    def data_received(self, data: bytes) -> None:
        """What came, up to a read's size."""
        self._unfinished_bytes += len(data)
        super().data_received(data)
        if self._unfinished_bytes > LARGEST_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The request's headers are too large.")

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._unfinished_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body, which others bound."""
        self._unfinished_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Another request may follow."""
        self._unfinished_bytes = 0
        super().on_message_complete()
