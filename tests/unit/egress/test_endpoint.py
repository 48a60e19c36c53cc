"""Endpoints: what they share, and what is sent to them."""

import pytest

from rft.core.failure import Stage
from rft.egress.endpoint import Endpoint, endpoint_key, header_problem, public_url, to_header_list
from rft.egress.endpoint_client import encode_json, idempotency_key


def test_one_key_per_scheme_host_port_and_path() -> None:
    same = {"https://a.com/x", "https://A.com:443/x", "https://a.com/x?q=1", "https://a.com/x#f"}
    assert {endpoint_key(url) for url in same} == {"https://a.com:443/x"}
    assert endpoint_key("http://a.com") == "http://a.com:80/"
    assert len({endpoint_key(f"https://a.com{rest}") for rest in ("/x", "/y", ":8443/x", "/x/")}) == 4


def test_an_endpoint_without_headers_has_nothing_to_redact() -> None:
    assert Endpoint("search", Stage.TOOL, "https://a.com").secrets == ()


def test_an_endpoint_never_shows_its_headers() -> None:
    endpoint = Endpoint("search", Stage.TOOL, "https://a.com", headers={"X-Key": "top-secret"})
    assert "top-secret" not in repr(endpoint)


@pytest.mark.parametrize(
    "headers",
    [{"X-Key": "a\nb"}, {"X-Key": "a\rb"}, {"X-Key": "a\x00b"}, {"X-Key": "\u0159"}, {"X Key": "a"}, {"": "a"},
     {"X:Y": "a"}, {"Host": "evil"}, {"transfer-encoding": "chunked"}, {"Idempotency-Key": "mine"}],
)  # fmt: skip
def test_headers_that_cannot_be_sent_are_refused_without_their_value(headers: dict[str, str]) -> None:
    problem = header_problem(headers)
    assert problem is not None
    assert "evil" not in problem
    with pytest.raises(ValueError, match="header"):
        Endpoint("search", Stage.TOOL, "https://a.com", headers=headers)


def test_the_customers_headers_go_over_ours() -> None:
    sent = dict(to_header_list({"user-agent": "mine", "X-Key": "caf\u00e9"}))
    assert sent["user-agent"] == "mine"
    assert "User-Agent" not in sent
    assert sent["X-Key"] == "caf\u00e9"
    assert sent["Content-Type"] == "application/json"


def test_a_public_url_carries_no_secret() -> None:
    assert public_url("https://u:p@a.com:1/x?key=secret#f") == "https://a.com:1/x"
    assert public_url("https://[::1") == "the URL"
    assert public_url("/login?next=secret") == "/login", "as servers redirect within themselves"
    assert public_url("//u:p@a.com/x?key=secret") == "//a.com/x"


def test_json_is_compact_utf8_and_bears_any_text() -> None:
    assert encode_json({"a": "\u017elu\u0165", "b": [1, None]}) == '{"a":"\u017elu\u0165","b":[1,null]}'.encode()
    assert encode_json({"a": "\ud800"}) == b'{"a":"\\ud800"}'


def test_an_idempotency_key_is_always_a_header_value() -> None:
    assert idempotency_key("trace_1", "call_1") == "trace_1/call_1"
    assert idempotency_key("trace_1", "a\r\nb: c/\u0159") == "trace_1/a%0D%0Ab%3A%20c%2F%C5%99"
