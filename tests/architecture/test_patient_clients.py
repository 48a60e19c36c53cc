"""How long an answer takes says how busy the machine is: no test leaves that to a library's five seconds."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
CLIENTS = {"AsyncClient", "Client", "get", "post", "put", "patch", "delete", "request", "stream"}


def impatient_calls(source: str) -> list[int]:
    """Lines that make an httpx client, or a request without one, with the library's own timeout."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CLIENTS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "httpx"
        and not {"timeout", None} & {keyword.arg for keyword in node.keywords}
    ]


def test_a_call_without_a_timeout_is_seen() -> None:
    assert impatient_calls("httpx.get(url)\nhttpx.Client(timeout=1)\nhttpx.AsyncClient(**more)\n") == [1]


def test_every_client_of_a_test_says_how_long_it_waits() -> None:
    found = {
        path.relative_to(TESTS).as_posix(): lines
        for path in TESTS.rglob("*.py")
        if (lines := impatient_calls(path.read_text()))
    }
    assert not found
