"""Endpoints: what they share, and how their secrets stay out of messages."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.failure import Stage
from rft.egress.endpoint import (
    Endpoint,
    endpoint_key,
    header_problem,
    public_url,
    redact,
    redact_secrets_of,
    secrets_of,
    to_header_list,
)
from rft.egress.endpoint_client import encode_json, idempotency_key


def test_one_key_per_scheme_host_port_and_path() -> None:
    same = {"https://a.com/x", "https://A.com:443/x", "https://a.com/x?q=1", "https://a.com/x#f"}
    assert {endpoint_key(url) for url in same} == {"https://a.com:443/x"}
    assert endpoint_key("http://a.com") == "http://a.com:80/"
    assert len({endpoint_key(f"https://a.com{rest}") for rest in ("/x", "/y", ":8443/x", "/x/")}) == 4


def test_secrets_are_redacted_whole_and_by_word() -> None:
    headers = {"Authorization": "Bearer abcdef-123", "X-Key": "k3y9", "X-Flag": "on", "Accept": "application/json"}
    text = "got 'Bearer abcdef-123' and abcdef-123 and k3y9, is on, Bearer of application/json"
    assert redact_secrets_of(text, headers) == "got '***' and *** and ***, is on, Bearer of application/json"


@pytest.mark.parametrize(
    ("value", "said", "shown"),
    [
        ("a=1; session=s3cret; theme=dark-blue", "your s3cret is bad, a=1", "your *** is bad, a=1"),
        ("a=1; session=s3cret", "no session", "no session"),
        ('Digest username="bob", response="0123abcd"', "response 0123abcd", "response ***"),
        ("key1abc,key2abc", "key2abc is old", "*** is old"),
        ("Basic dXNlcjpodW50ZXIy", "user:hunter2 and hunter2 and dXNlcjpodW50ZXIy", "*** and *** and ***"),
        ('quo"te\\d', 'bare quo"te\\d, in JSON quo\\"te\\\\d', "bare ***, in JSON ***"),
        ("caf\u00e9-key", "caf\u00e9-key or caf\\u00e9-key", "*** or ***"),
        ("Basic not base64!", "not base64!", "not ***"),
        ("Basic user:pass1", "no user:pass1 here", "no *** here"),
        ("Basic user:pass\u00e91", "no user:pass\u00e91 here", "no *** here"),
        ("", "nothing", "nothing"),
    ],
)
def test_every_part_of_a_header_that_may_be_a_secret_is_redacted(value: str, said: str, shown: str) -> None:
    assert redact_secrets_of(said, {"X-Key": value}) == shown


def test_short_values_are_secrets_only_where_the_headers_name_says_so() -> None:
    headers = {"X-Region": "production", "X-Api-Key": "hunter2", "X-Trace": "0123456789abcdef"}
    assert redact_secrets_of("production hunter2 0123456789abcdef", headers) == "production *** ***"


@given(st.text('ab"\\ =;,\u00e9', min_size=4, max_size=12), st.text(max_size=20), st.text(max_size=20))
def test_no_header_value_survives_in_a_text_or_in_its_json(value: str, before: str, after: str) -> None:
    secrets = secrets_of({"X-Key": value})
    kept = value.strip()
    if len(kept) < 4:
        return
    assert kept not in redact(f"{before}{value}{after}", secrets)
    assert kept not in json.loads(redact(json.dumps(f"-{value}-"), secrets))


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


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("no such key: hunter2", "no such key: ***"),
        ("POST /x?key=hunter2&region=production&v=a%2Fbcdefghijklm HTTP/1.1", "POST /x*** HTTP/1.1"),
        ("production is down", "production is down"),
        ("a/bcdefghijklm and a%2Fbcdefghijklm", "*** and ***"),
        ("https://a.com/x?key=hunter2&region=production&v=a/bcdefghijklm", "https://a.com/x***"),
    ],
)
def test_what_an_endpoint_says_of_its_url_shows_no_secret_of_it(said: str, shown: str) -> None:
    url = "https://a.com/x?key=hunter2&region=production&v=a%2Fbcdefghijklm"
    endpoint = Endpoint("search", Stage.TOOL, url)
    assert redact(said, endpoint.secrets) == redact_secrets_of(said, {}, url) == shown
    assert "hunter2" not in repr(endpoint)
    assert public_url(url) == "https://a.com/x"


def test_a_short_query_is_redacted_whole_and_no_word_of_honest_output() -> None:
    assert redact_secrets_of("v=1 of ?v=1", {}, "https://a.com/?v=1") == "v=1 of ***"
