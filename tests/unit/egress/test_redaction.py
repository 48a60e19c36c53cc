"""How the secrets of a call stay out of what is shown of it, and honest output stays what it is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.failure import Stage
from rft.egress.endpoint import Endpoint, public_url
from rft.egress.redaction import keys_of, redact, redact_keys, redact_secrets_of, secrets_of


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


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Authorization": "Bearer none"}, '{"side_effects": "none"}'),
        ({"Authorization": "Bearer test"}, "the latest test"),
        ({"X-Api-Key": "1234"}, "51234 and 1234"),
        ({"X-Api-Key": "administrator"}, "ask the administrator"),
        ({"X-Keyspace": "orders-eu-2"}, "12 orders-eu-2 found"),
        ({"X-Author": "Smith & Sons"}, "by Smith & Sons"),
        ({"X-Tenant": "acme-corp-2026"}, "acme-corp-2026 has 3 orders"),
        ({"X-Session": "hunter2-a"}, "hunter2-ab"),
        ({"Authorization": "Basic dXNlcjpwYXNz"}, "a passenger with a pass"),
    ],
)
def test_no_word_of_honest_output_is_taken_for_a_key(headers: dict[str, str], said: str) -> None:
    assert redact_keys(said, keys_of(headers, "https://a.com/?key=2026-11-27&v=1")) == said


@pytest.mark.parametrize(
    ("headers", "said", "shown"),
    [
        ({"Authorization": "Bearer sk-abc123"}, 'you sent "sk-abc123".', 'you sent "***".'),
        ({"X-ApiKey": "k3y-of-ours"}, '{"headers": {"X-ApiKey": "k3y-of-ours"}}', '{"headers": {"X-ApiKey": "***"}}'),
        ({"X-My-Token": 'quo"te-1'}, r'"quo\"te-1" or quo"te-1', '"***" or ***'),
        (
            {"Cookie": "theme=dark; sessionid=9f8e7d6c"},
            "sessionid is 9f8e7d6c, theme dark",
            "sessionid is ***, theme dark",
        ),
        ({}, "GET /x?key=hunter2-a&v=1", "GET /x***"),
        ({}, "GET /x?key=hunter2-a", "GET /x?key=***"),
    ],
)
def test_a_key_that_is_repeated_in_an_output_is_redacted(headers: dict[str, str], said: str, shown: str) -> None:
    assert redact_keys(said, keys_of(headers, "https://a.com/x?key=hunter2-a&v=1")) == shown
