"""What a command prints of others' text: nothing that steers a terminal, and ids and links in one piece."""

import json
import sys
from io import BytesIO, StringIO, TextIOWrapper

import pytest

from rft.platform.cli.address import Address
from rft.platform.cli.client import Client
from rft.platform.cli.formats import json_text
from rft.platform.cli.session import Session, console

LINK = "http://127.0.0.1:8787/#sign-in=signin_yR0HATo08ZMM_zoEFTeV_6NALjStDrx47DRfFk6JW0A"


@pytest.fixture
def narrow() -> Session:
    """A terminal of forty columns."""
    out, err = console(), console(stderr=True)
    for each in (out, err):
        each.file, each.width = StringIO(), 40
    return Session(Client(Address("http://127.0.0.1:1/v1", "key")), as_json=False, out=out, err=err)


def shown(session: Session) -> tuple[str, str]:
    """What the two streams got."""
    out, err = session.out.file, session.err.file
    assert isinstance(out, StringIO)
    assert isinstance(err, StringIO)
    return out.getvalue(), err.getvalue()


def test_a_link_is_one_line_in_any_terminal(narrow: Session) -> None:
    narrow.show({"url": LINK}, "{url}")
    narrow.note(f"there are more: --after {LINK}")
    narrow.warn(LINK)
    assert shown(narrow) == (f"{LINK}\n", f"there are more: --after {LINK}\nwarning: {LINK}\n")


def test_one_line_answers_hold_nothing_that_steers_a_terminal(narrow: Session) -> None:
    narrow.show({"id": "a\x1b[31mb"}, "{id} is deleted")
    narrow.show({"id": "a\x1b[31mb"}, lambda answer: answer.need("id", str))
    narrow.note("c\x9b31m")
    out, err = shown(narrow)
    assert not {"\x1b", "\x9b"} & set(out + err)


def test_an_id_with_the_name_of_a_picture_stays_as_it_is(narrow: Session) -> None:
    narrow.show({"id": "ft:tiny:local:cat:abc"}, "{id} is deleted")
    narrow.out.print("a :cat: b")
    assert shown(narrow)[0] == "ft:tiny:local:cat:abc is deleted\na :cat: b\n"


@pytest.mark.parametrize(("encoding", "text"), [("ascii", '{"a": "\\u00e4\\ud83d\\ude00"}'), ("utf-8", '{"a": "ä😀"}')])
def test_json_is_whole_in_any_encoding(monkeypatch: pytest.MonkeyPatch, encoding: str, text: str) -> None:
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(BytesIO(), encoding=encoding, errors="replace"))
    assert json_text({"a": "ä😀"}, indent=None) == text
    assert json.loads(text) == {"a": "ä😀"}
