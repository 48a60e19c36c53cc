"""The verifier that the docs show, executed as it stands there."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.egress.signing import Signer, new_secret

_DOCS = Path(__file__).parents[3] / "docs" / "signing.md"
OLD, NEW, OTHER = (new_secret(letter * 32) for letter in (b"o", b"n", b"x"))
Verifier = Callable[[str, dict[str, str], bytes], bool]


def documented() -> Verifier:
    """`is_ours`, from the only Python block."""
    (block,) = re.findall(r"```python\n(.*?)```", _DOCS.read_text(encoding="utf-8"), re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(compile(block, str(_DOCS), "exec"), namespace)
    return cast(Verifier, namespace["is_ours"])


is_ours = documented()


def signed(body: bytes, *secrets: str, at: float | None = None) -> dict[str, str]:
    headers = Signer(secrets).headers("trace_1/call_1", body, now_s=time.time() if at is None else at)
    return dict(headers)


@given(st.binary(max_size=200))
def test_it_accepts_what_we_sign(body: bytes) -> None:
    assert is_ours(NEW, signed(body, NEW), body)


def test_it_has_ten_lines_at_most() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", _DOCS.read_text(encoding="utf-8"), re.DOTALL)
    function = block[block.index("def ") :].strip()
    assert len(function.splitlines()) <= 10


def test_either_secret_does_while_two_are_active() -> None:
    headers = signed(b"{}", NEW, OLD)
    assert is_ours(NEW, headers, b"{}")
    assert is_ours(OLD, headers, b"{}")
    assert not is_ours(OTHER, headers, b"{}")


def test_it_refuses_what_somebody_changed() -> None:
    headers = signed(b"{}", NEW)
    assert not is_ours(NEW, headers, b"{ }")
    assert not is_ours(NEW, headers | {"webhook-id": "trace_1/call_2"}, b"{}")
    assert not is_ours(NEW, headers | {"webhook-timestamp": str(int(time.time()) + 1)}, b"{}")


@pytest.mark.parametrize("late_s", [-3600, 3600])
def test_it_refuses_a_call_of_another_time(late_s: float) -> None:
    assert not is_ours(NEW, signed(b"{}", NEW, at=time.time() - late_s), b"{}")


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_it_refuses_a_call_without_signature(missing: str) -> None:
    headers = signed(b"{}", NEW)
    del headers[missing]
    assert not is_ours(NEW, headers, b"{}")
