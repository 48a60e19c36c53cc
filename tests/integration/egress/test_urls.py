"""Whatever passes the check of an order's URLs can be called: an answer or a failure with blame, no bug of ours."""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.provisional import domains, urls
from pydantic import TypeAdapter, ValidationError

from rft.core.failure import Failure, FailureCode, Stage
from rft.core.spec import RetryBudget
from rft.egress.client import HttpClient
from rft.egress.endpoint import Endpoint, endpoint_key, public_url
from rft.egress.endpoint_client import Answer, EndpointClient
from rft.egress.limits import Limits
from rft.egress.probing import probe
from rft.egress.reply import Reply
from rft.egress.urls import parse_url
from rft.platform.orders.tool_fields import EndpointUrl
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.loopback import LoopbackEndpoint

CHECK = TypeAdapter[str](EndpointUrl)
ODD = (
    "aZ09.-_~:/?#[]@!$&'()*+,;=%\\|^`{}<>\"\t"
    "\u00ad\u3002\uff18\u0668\u00df\u0131\u017f\u00e9\u0130\u4f8b\u202e\U0001f600\ud800"
)
TEXTS = st.text(st.sampled_from(ODD) | st.characters(), max_size=30)
PORTS = st.sampled_from(
    ["", ":", ":0", ":1", ":9", ":\uff18\uff10", ":\u0669", ":+9", ":8_0", ":65535", ":65536", ": 9", ":PORT"]
)
HOSTS = (
    domains()
    | st.sampled_from(["localhost", "LOCALHOST.", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "a..b", "xn--a", "xn--"])
    | st.from_regex(r"[a-z0-9_.-]{1,70}", fullmatch=True)
    | TEXTS
)
URLS = (
    st.builds(
        "{}://{}{}{}".format, st.sampled_from(["http", "https", "HTTP", "ftp"]), HOSTS, PORTS, TEXTS.map("/{}".format)
    )
    | urls()
    | TEXTS
    | st.builds("{}://{}".format, st.sampled_from(["http", "https"]), TEXTS)
)


class LocalNames(AbstractResolver):
    """Every name that the system's resolver could ask for is this machine's."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """As `getaddrinfo` does first."""
        host.encode("idna")
        await asyncio.sleep(0)
        return [ResolveResult(hostname=host, host="127.0.0.1", port=port, family=family, proto=0, flags=0)]

    async def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
async def server() -> AsyncIterator[LoopbackEndpoint]:
    """A customer's endpoint, which answers at one of the ports."""
    async with LoopbackEndpoint(ScriptedEndpoint()) as endpoint:
        yield endpoint


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(template=URLS)
@example(template="http://example.com:\uff18\uff10\uff18\uff10/tool")
@example(template=f"http://{'a' * 64}.com:PORT/")
@example(template="http://a..b:PORT/")
@example(template="http://.a:PORT/")
@example(template="http://xn--a:PORT/%zz%")
@example(template="http://xn--0.pt:PORT/?q=%zz&\u00fc=[#")
async def test_what_passes_the_check_can_be_called(template: str, server: LoopbackEndpoint) -> None:
    port = str(parse_url(server.tool_url).port)
    url = template.replace(":PORT", f":{port}")
    try:
        CHECK.validate_python(url)
    except ValidationError:
        return
    key, shown = endpoint_key(url), public_url(url)
    assert key.startswith(("http://", "https://"))
    assert "@" not in shown.partition("//")[2].partition("/")[0]
    if is_elsewhere(parse_url(url).host):
        return
    client = EndpointClient(
        HttpClient(make_resolver=LocalNames),
        limits=Limits.fixed(4),
        retry=RetryBudget(max_retries=0, total_s=20.0, first_wait_s=0.001),
    )
    async with client:
        outcome = await client.post_json(
            Endpoint(name="tool", stage=Stage.TOOL, url=url, timeout_s=20.0),
            {"x": 1},
            trace_id="trace_1",
            call_id="call_1",
            read=read,
        )
    assert isinstance(outcome, Answer | Failure)
    if isinstance(outcome, Failure):
        assert outcome.code not in (FailureCode.INTERNAL_ERROR, FailureCode.BLOCKED_ADDRESS) or needs_https(outcome)
    if key.startswith(f"http://{parse_url(url).host}:{port}/"):
        assert isinstance(outcome, Answer), outcome


async def test_a_probe_of_such_a_url_raises_nothing(server: LoopbackEndpoint) -> None:
    for url in ("http://127.0.0.1:\uff18\uff10\uff18\uff10/", "http://a..b/", "http://[::1", server.tool_url):
        failure = await probe(url)
        assert (failure is None) == (url == server.tool_url)


def is_elsewhere(host: str) -> bool:
    """Whether it is the address of another machine, which a test does not call."""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def needs_https(failure: Failure) -> bool:
    return failure.code is FailureCode.BLOCKED_ADDRESS and "needs https" in failure.message


def read(reply: Reply) -> str:
    """Any answer will do."""
    return reply.body.decode(errors="replace")
