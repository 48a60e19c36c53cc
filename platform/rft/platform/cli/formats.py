"""How the command line says dates, sizes, durations and numbers, and how foreign text becomes safe to print."""

import json
import re
import sys
from datetime import UTC, datetime, tzinfo
from math import isfinite

_NOT_PRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNITS = ("B", "kB", "MB", "GB", "TB")
NOTHING = "-"


def printable(text: str) -> str:
    """Without what would steer a terminal: models, tools and customers write what they like."""
    return _NOT_PRINTABLE.sub("\ufffd", text.replace("\r\n", "\n"))


def json_text(document: object, *, indent: int | None = 2) -> str:
    """JSON as it came; letters that the encoding of standard output lacks are escaped, where they became others."""
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    return json.dumps(document, indent=indent, ensure_ascii=not is_unicode)


def one_line(text: str, *, limit: int = 200) -> str:
    """Safe to print, on one line, cut where it gets long."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def date(unix_s: float | None, zone: tzinfo | None = None) -> str:
    """Day and minute where the reader is, or in `zone`."""
    if unix_s is None:
        return NOTHING
    return _local(unix_s, zone, "%Y-%m-%d %H:%M")


def clock(unix_s: float, zone: tzinfo | None = None) -> str:
    """The time of the day, to the second."""
    return _local(unix_s, zone, "%H:%M:%S")


def _local(unix_s: float, zone: tzinfo | None, form: str) -> str:
    try:
        return datetime.fromtimestamp(unix_s, UTC).astimezone(zone).strftime(form)
    except (ValueError, OverflowError, OSError):  # Beyond all calendars: shown as it came.
        return f"{unix_s:g}"


def duration(seconds: float | None) -> str:
    """In the two largest units that say something: `7 ms`, `45 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    if seconds is None:
        return NOTHING
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if not isfinite(seconds):
        return f"{seconds:g} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = whole // 60
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def size(count: int) -> str:
    """Bytes in the unit that leaves one to three digits before the point."""
    amount, unit = float(min(count, 10**18)), 0
    while amount >= 999.5 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def number(value: float | None, digits: int = 3) -> str:
    """A measured number; `-` for none."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def share(value: float | None) -> str:
    """A share in percent."""
    return NOTHING if value is None else f"{value:.1%}"


def counted(count: int, word: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
