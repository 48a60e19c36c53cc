"""HTTP/1.1 read by httptools, for half of h11's work, with the limit on a request's head that h11 has."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD_BYTES = 64 << 10
"""Of request line and headers, which are kept in memory before anybody knows who sends them. One read may exceed it."""


class HttpProtocol(HttpToolsProtocol):
    """Refuses a request whose head does not end, where httptools would keep all of it."""

    _is_in_body = False
    _head_bytes = 0
    """What came since the last head ended, while no body was expected."""

    def data_received(self, data: bytes) -> None:
        """What came, up to a read's size."""
        if not self._is_in_body:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > LARGEST_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The request's headers are too large.")

    def on_headers_complete(self) -> None:
        """The head is whole, and what came with it no part of one that does not end."""
        self._is_in_body, self._head_bytes = True, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Another request may follow."""
        self._is_in_body = False
        super().on_message_complete()
