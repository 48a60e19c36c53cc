"""URLs' secrets: redacted for who looks, put back for who calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.graders import EndpointGrader, MultiGrader, StringCheckGrader
from rft.core.secret_urls import (
    REDACTED,
    has_redacted,
    is_url_field,
    put_secret_urls,
    redact_url,
    restore_url,
    take_secret_urls,
)
from rft.core.spec import RunSecrets, ToolServer


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://a.com/x", "https://a.com/x"),
        ("https://a.com/x?", "https://a.com/x?"),
        ("https://a.com/x?key=1&sig=a%26b", f"https://a.com/x?key={REDACTED}&sig={REDACTED}"),
        ("https://a.com/x?token", f"https://a.com/x?{REDACTED}"),
        ("https://a.com?dG9rZW4==&=v&&", f"https://a.com?{REDACTED}&={REDACTED}&&"),
        ("https://a.com/x?a=b=c?d#frag?e", f"https://a.com/x?a={REDACTED}#{REDACTED}"),
        ("https://u:p@ss@a.com:8/x@y", f"https://{REDACTED}@a.com:8/x@y"),
        ("//u@a.com", f"//{REDACTED}@a.com"),
        ("no url?k=v", f"no url?k={REDACTED}"),
        ("", ""),
    ],
)
def test_every_value_is_redacted_and_every_name_stays(url: str, shown: str) -> None:
    assert redact_url(url) == shown
    assert redact_url(shown) == shown
    assert has_redacted(shown) == (url != shown)
    assert restore_url(shown, url) == url


TEXTS = st.text("ab:/?#@&=%*2A.", max_size=30)


@given(TEXTS)
def test_what_is_shown_and_sent_back_is_the_whole_again(url: str) -> None:
    shown = redact_url(url)
    assert redact_url(shown) == shown
    assert restore_url(shown, url) == url


@given(TEXTS.filter(lambda text: "*" not in text), TEXTS)
def test_a_url_without_redactions_takes_nothing_over(new: str, known: str) -> None:
    assert not has_redacted(new)
    assert restore_url(new, known) == new


def test_values_go_back_to_their_names_in_order() -> None:
    known = "https://a.com/x?a=1&b=2&a=3"
    assert restore_url(f"https://a.com/y?b={REDACTED}&a={REDACTED}&a=9", known) == "https://a.com/y?b=2&a=1&a=9"
    escaped = REDACTED.replace("*", "%2A")
    assert restore_url(f"https://a.com/x?a={REDACTED}&a={escaped}&c=4", known) == "https://a.com/x?a=1&a=3&c=4"
    assert has_redacted(restore_url(f"https://a.com/x?c={REDACTED}", known)), "there is nothing that it stands for"


def test_fields_that_hold_urls() -> None:
    assert all(map(is_url_field, ("url", "server_url", "callbackUrl", "Webhook-URL", "redirect_uri")))
    assert not any(map(is_url_field, ("urls", "name", "headers", "url_name")))


def test_what_is_taken_out_of_a_run_is_put_back() -> None:
    tools = (
        ToolServer(name="a", server_url="http://a/x?k=1", callback_url="http://a/h"),
        ToolServer(name="b", server_url="http://b/x", callback_url="http://b/h?s=2"),
    )
    plain = StringCheckGrader(name="plain", input="a", reference="b", operation="eq")
    endpoint = EndpointGrader(name="part", url="http://g/?t=3")
    many = MultiGrader(name="many", graders={"one": endpoint, "two": plain}, calculate_output="one")
    for grader in (many, endpoint, plain):
        shown_tools, shown_grader, secrets = take_secret_urls(tools, grader, RunSecrets(grader_headers={"A": "b"}))
        assert "=1" not in str(shown_tools)
        assert "=2" not in str(shown_tools)
        assert "=3" not in str(shown_grader)
        assert secrets.grader_headers == {"A": "b"}
        assert (secrets.tool_urls, secrets.callback_urls) == ({"a": "http://a/x?k=1"}, {"b": "http://b/h?s=2"})
        assert put_secret_urls(shown_tools, shown_grader, secrets) == (tools, grader)
        again = take_secret_urls(shown_tools, shown_grader, secrets)
        assert again == (shown_tools, shown_grader, secrets), "what is redacted holds no secret"
