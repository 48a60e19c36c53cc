"""Bodies of replies that came compressed. Pure."""

import zlib

_GZIP_MEMBER = b"\x1f\x8b"
_MOST_MEMBERS = 256
"""What follows is copied for each: many empty ones would keep everything else on the loop waiting."""


class Undecodable(Exception):
    """A body that is not what its headers say."""


def unpack(body: bytes, encoding: str, cap: int, *, is_whole: bool) -> bytes:
    """The body. At most cap + 1 bytes are ever unpacked, so that a compressed bomb costs nothing.

    `is_whole`: nothing was cut off. Raises Undecodable.
    """
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise Undecodable(f"content-encoding {encoding[:40]!r}, which was not asked for")
    if encoding == "deflate" and body[:1] and body[0] & 0x0F != zlib.DEFLATED:
        window = -zlib.MAX_WBITS
    else:
        window = zlib.MAX_WBITS | 32
    unpacked = b""
    for _ in range(_MOST_MEMBERS):
        unpacker = zlib.decompressobj(window)
        try:
            unpacked += unpacker.decompress(body, cap + 1 - len(unpacked))
        except zlib.error as error:
            raise Undecodable(f"a body that is not {encoding} ({error})") from error
        if len(unpacked) > cap:
            return unpacked
        if not unpacker.eof:
            break
        body = unpacker.unused_data
        if not body.startswith(_GZIP_MEMBER):
            return unpacked
    else:
        raise Undecodable(f"a {encoding} body of more than {_MOST_MEMBERS} parts")
    if is_whole:
        raise Undecodable(f"a {encoding} body that ends too early")
    return unpacked
