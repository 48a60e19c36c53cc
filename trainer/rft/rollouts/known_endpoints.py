"""Who is behind the endpoints that a run calls."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rft.core.chat_completion import completions_url
from rft.core.errors import RunFailed
from rft.core.failure import Stage
from rft.core.graders import endpoint_graders
from rft.core.secret_urls import has_redacted
from rft.core.spec import RunSecrets, RunSpec
from rft.egress.endpoint import endpoint_key


@dataclass(frozen=True, slots=True)
class KnownEndpoint:
    """Who is behind one endpoint key."""

    stage: Stage
    names: tuple[str, ...]
    """In label, e.g. `tool 'search'`."""
    secrets: dict[str, str]
    """Header values that no message may show."""
    urls: tuple[str, ...] = ()
    """Whole, with whatever secrets they hold."""


def known_endpoints(spec: RunSpec, secrets: RunSecrets) -> dict[str, KnownEndpoint]:
    """All endpoints of a run by endpoint key; what shares a key shares its health."""
    found: dict[str, KnownEndpoint] = {}
    for stage, label, url, headers in _called(spec, secrets):
        before = found.get(endpoint_key(url), KnownEndpoint(stage, (), {}))
        numbered = {f"{name}.{len(before.secrets)}": value for name, value in headers.items()}
        names = before.names if label in before.names else (*before.names, label)
        urls = (*before.urls, url)
        found[endpoint_key(url)] = KnownEndpoint(before.stage, names, before.secrets | numbered, urls)
    return found


def _called(spec: RunSpec, secrets: RunSecrets) -> Iterator[tuple[Stage, str, str, Mapping[str, str]]]:
    """Stage, label, URL and secret headers of each."""
    for tool in spec.tools:
        headers = secrets.tool_headers.get(tool.name, {})
        yield Stage.TOOL, f"tool {tool.name!r}", tool.server_url, headers
        if tool.callback_url is not None:
            yield Stage.TOOL, f"the rollout callback of tool {tool.name!r}", tool.callback_url, headers
    for variable, grader in endpoint_graders(spec.grader):
        headers = secrets.grader_headers if variable is None else secrets.part_headers.get(variable, {})
        yield Stage.GRADER, f"grader {grader.name!r}", grader.url, headers
    if spec.judge is not None:
        key = {"Authorization": secrets.judge_api_key} if secrets.judge_api_key else {}
        yield Stage.GRADER, "the judge server", completions_url(spec.judge.base_url), key


def endpoint_keys(spec: RunSpec) -> list[tuple[Stage, str, str]]:
    """Stage, name and endpoint key of the run's tools and endpoint graders, as the table of endpoints names them."""
    tools = [(Stage.TOOL, tool.name, endpoint_key(tool.server_url)) for tool in spec.tools]
    graders = [(Stage.GRADER, part.name, endpoint_key(part.url)) for _, part in endpoint_graders(spec.grader)]
    return [*tools, *graders]


def refuse_redacted_urls(spec: RunSpec, stage: Stage) -> None:
    """A URL whose secret did not come along leads elsewhere than the customer meant: never to be called."""
    known = known_endpoints(spec, RunSecrets()).values()
    if any(has_redacted(url) for endpoint in known if endpoint.stage is stage for url in endpoint.urls):
        raise RunFailed("secret_url_missing", f"The secret in the URL of a {stage.value} did not come with the run.")
