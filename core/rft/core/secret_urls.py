"""Secrets in customers' URLs: what of a URL may be stored and shown, and how a run gets the whole of it.

A query's values, a user name with its password and a fragment may each be a secret; the rest of a URL is none.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rft.core.graders import EndpointGrader, GraderSpec, MultiGrader, endpoint_graders
from rft.core.spec import RunSecrets, ToolServer

REDACTED = "**********"
"""Stands for a secret wherever an order is stored or shown."""
_PARTS = re.compile(r"([^:/?#@]*:?//)?(?:([^/?#]*)@)?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)


class _Parts(NamedTuple):
    """A URL as it is written; None for what it has not."""

    scheme: str | None
    user: str | None
    place: str
    query: str | None
    fragment: str | None

    @classmethod
    def of(cls, url: str) -> "_Parts":
        found = _PARTS.fullmatch(url)
        assert found is not None, "every text matches"
        return cls(*found.groups())

    @property
    def pieces(self) -> list[str]:
        """What stands between the ampersands of the query."""
        return [] if self.query is None else self.query.split("&")

    def joined(self, user: str | None, pieces: Sequence[str], fragment: str | None) -> str:
        """The same place with these secrets."""
        whose = "" if user is None else f"{user}@"
        query = "" if self.query is None else f"?{'&'.join(pieces)}"
        return f"{self.scheme or ''}{whose}{self.place}{query}" + ("" if fragment is None else f"#{fragment}")


def is_url_field(name: str) -> bool:
    """Whether a field of an order with this name holds a URL: those we know, and unknown ones called alike."""
    return name.lower().replace("_", "").replace("-", "").endswith(("url", "uri"))


def redact_url(url: str) -> str:
    """The URL with every secret of it replaced; what is redacted already stays as it is."""
    parts = _Parts.of(url)
    return parts.joined(_redacted(parts.user), [_redacted_piece(piece) for piece in parts.pieces], _fragment(parts))


def has_redacted(url: str) -> bool:
    """Whether a redaction stands in it where a secret was."""
    parts = _Parts.of(url)
    return REDACTED in (parts.user, parts.fragment) or any(_is_redacted(piece) for piece in parts.pieces)


def restore_url(shown: str, whole: str) -> str:
    """`shown` with the secrets of `whole` for its redactions: by name, in order. What `whole` lacks stays redacted."""
    new, known = _Parts.of(shown), _Parts.of(whole)
    by_form: defaultdict[str, list[str]] = defaultdict(list)
    for piece in known.pieces:
        by_form[_redacted_piece(piece)].append(piece)
    pieces = [
        kept.pop(0) if _is_redacted(piece) and (kept := by_form[_unescaped(piece)]) else piece for piece in new.pieces
    ]
    user = known.user if new.user == REDACTED and known.user is not None else new.user
    fragment = known.fragment if new.fragment == REDACTED and known.fragment is not None else new.fragment
    return new.joined(user, pieces, fragment)


def named_values(url: str) -> Iterator[tuple[str, str]]:
    """Each secret as it is written, with its name; "" for what has none."""
    parts = _Parts.of(url)
    for piece in parts.pieces:
        name, _, value = piece.partition("=")
        yield (name, value) if value.strip("=") else ("", piece)
    for value in (parts.user or "").split(":"):
        yield "password", value
    yield "", parts.fragment or ""


def _redacted(value: str | None) -> str | None:
    return value and REDACTED


def _fragment(parts: _Parts) -> str | None:
    return _redacted(parts.fragment)


def _redacted_piece(piece: str) -> str:
    """`name=value` keeps its name. What has no value may be a secret itself, also one that ends in `=`, like base64."""
    name, _, value = piece.partition("=")
    return f"{name}={REDACTED}" if value.strip("=") else piece and REDACTED


def _is_redacted(piece: str) -> bool:
    return piece != "" and _unescaped(piece) == _redacted_piece(piece)


def _unescaped(piece: str) -> str:
    """Libraries that write URLs escape asterisks."""
    return piece.replace("%2A", "*").replace("%2a", "*")


def put_secret_urls(
    tools: Sequence[ToolServer], grader: GraderSpec, secrets: RunSecrets
) -> tuple[tuple[ToolServer, ...], GraderSpec]:
    """Tools and grader as they are called: with their whole URLs."""
    return tuple(_tool_with(tool, secrets.tool_urls, secrets.callback_urls) for tool in tools), _grader_with(
        grader, secrets.grader_url, secrets.part_urls
    )


def take_secret_urls(
    tools: Sequence[ToolServer], grader: GraderSpec, secrets: RunSecrets
) -> tuple[tuple[ToolServer, ...], GraderSpec, RunSecrets]:
    """Tools and grader fit to be written down, and the secrets with what was taken out of their URLs."""
    callbacks = {tool.name: tool.callback_url for tool in tools if tool.callback_url is not None}
    taken = RunSecrets(
        tool_urls=_secret_ones({tool.name: tool.server_url for tool in tools}),
        callback_urls=_secret_ones(callbacks),
        grader_url=secret_url(grader.url) if isinstance(grader, EndpointGrader) else None,
        part_urls=_secret_ones(_part_urls(grader)),
    )
    shown_tools, shown_grader = put_secret_urls(tools, grader, _shown(tools, grader))
    return shown_tools, shown_grader, with_urls_of(secrets, taken)


def with_urls_of(secrets: RunSecrets, others: RunSecrets) -> RunSecrets:
    """`secrets` with the URLs of `others` where it has none itself."""
    return secrets.model_copy(
        update={
            "tool_urls": others.tool_urls | secrets.tool_urls,
            "callback_urls": others.callback_urls | secrets.callback_urls,
            "grader_url": secrets.grader_url or others.grader_url,
            "part_urls": others.part_urls | secrets.part_urls,
        }
    )


def secret_url(url: str) -> str | None:
    """The URL where it holds a secret."""
    return None if redact_url(url) == url else url


def _secret_ones(urls: Mapping[str, str]) -> dict[str, str]:
    return {name: url for name, url in urls.items() if secret_url(url) is not None}


def _part_urls(grader: GraderSpec) -> dict[str, str]:
    return {name: part.url for name, part in endpoint_graders(grader) if name is not None}


def _shown(tools: Sequence[ToolServer], grader: GraderSpec) -> RunSecrets:
    """Every URL redacted."""
    return RunSecrets(
        tool_urls={tool.name: redact_url(tool.server_url) for tool in tools},
        callback_urls={tool.name: redact_url(tool.callback_url) for tool in tools if tool.callback_url is not None},
        grader_url=redact_url(grader.url) if isinstance(grader, EndpointGrader) else None,
        part_urls={name: redact_url(url) for name, url in _part_urls(grader).items()},
    )


def _tool_with(tool: ToolServer, urls: Mapping[str, str], callback_urls: Mapping[str, str]) -> ToolServer:
    callback_url = tool.callback_url and callback_urls.get(tool.name, tool.callback_url)
    return tool.model_copy(update={"server_url": urls.get(tool.name, tool.server_url), "callback_url": callback_url})


def _grader_with(grader: GraderSpec, url: str | None, part_urls: Mapping[str, str]) -> GraderSpec:
    match grader:
        case EndpointGrader():
            return grader if url is None else grader.model_copy(update={"url": url})
        case MultiGrader():
            parts = {name: _grader_with(part, part_urls.get(name), {}) for name, part in grader.graders.items()}
            return grader.model_copy(update={"graders": parts})
        case _:
            return grader
