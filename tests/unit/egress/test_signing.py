"""Signatures, checked with the public package that our customers would use."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from rft.egress.signing import Signer, new_secret

OLD, NEW = new_secret(b"o" * 32), new_secret(b"n" * 32)


@given(
    st.text(max_size=300).map(str.encode),
    st.from_regex(r"trace_[a-z0-9-]{1,40}/[A-Za-z0-9_.:%-]{1,40}", fullmatch=True),
)
def test_the_public_package_accepts_what_we_sign(body: bytes, message_id: str) -> None:
    headers = Signer([NEW]).headers(message_id, body, now_s=time.time())
    Webhook(NEW).verify(body, dict(headers), json_parse=False)


def test_either_secret_verifies_while_they_are_rotated() -> None:
    headers = dict(Signer([NEW, OLD]).headers("trace_1/call_1", b"{}", now_s=time.time()))
    for secret in (OLD, NEW):
        Webhook(secret).verify(b"{}", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret(b"x" * 32)).verify(b"{}", headers)


def test_a_changed_body_or_an_old_timestamp_is_refused() -> None:
    headers = dict(Signer([NEW]).headers("trace_1/call_1", b"{}", now_s=time.time()))
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(b"{ }", headers)
    stale = dict(Signer([NEW]).headers("trace_1/call_1", b"{}", now_s=time.time() - 3600))
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(b"{}", stale)


@pytest.mark.parametrize("secrets", [[], ["whsec_"], ["whsec_!!!"], ["whsec_c2hvcnQ="], [NEW, "\u017e"]])
def test_malformed_secrets_are_refused_without_showing_them(secrets: list[str]) -> None:
    with pytest.raises(ValueError, match="secret") as raised:
        Signer(secrets)
    assert "c2hvcnQ" not in str(raised.value)


def test_a_signer_never_shows_its_secrets() -> None:
    assert repr(Signer([NEW, OLD])) == "Signer(2 secrets)"


def test_a_secret_needs_enough_entropy() -> None:
    with pytest.raises(ValueError, match="24 to 64"):
        new_secret(b"short")
