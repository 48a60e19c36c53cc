"""The example's tools and grader over real HTTP, beside the world in which the starter was warmed up."""

import http.client
import json
import random
import re
import signal
from pathlib import Path
from types import ModuleType

import pytest

from rft.starter.world import PROBE_COMPANIES, WARMUP_COMPANIES, World
from tests.integration.finqa_mini.running import EXAMPLE, RunningServer, start


def test_health_tells_how_many_reports_are_served(server: RunningServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", "/health")
    assert json.loads(connection.getresponse().read()) == {"status": "ok", "reports": 1200}
    connection.close()


def test_tools_answer_as_in_the_warm_up(server: RunningServer, corpus: ModuleType) -> None:
    """Otherwise the starter would meet texts that it never learned to read."""
    world = World({report.path: report.text for report in corpus.write_reports()})
    rng = random.Random(1)
    for _ in range(40):
        question = world.question(rng)
        company = question.company
        arguments = {
            "search": [f"{company} {question.year}", company, f"{company} {question.metric}", company.split()[0]],
            "list": [company, company.upper(), question.path],
            "cat": [question.path, f" {question.path}\n", f"{company}/{question.year}/9"],
        }
        for name, texts in arguments.items():
            for text in texts:
                assert server.tool(name, text) == world.call(name, text), (name, text)
    for name, text in (("search", ""), ("search", "2017"), ("search", "Ünknown"), ("list", "nobody"), ("cat", "")):
        assert server.tool(name, text) == world.call(name, text)


def test_companies_of_the_example_are_unknown_to_the_starter(corpus: ModuleType) -> None:
    split = corpus.companies()
    names = [*split.training, *split.validation, *split.test]
    assert (len(split.training), len(split.validation), len(split.test)) == (120, 60, 60)
    assert len(set(names)) == 240, "no company is in two splits"
    assert not set(names) & (set(WARMUP_COMPANIES) | set(PROBE_COMPANIES))


def test_all_tools_share_one_url_too(server: RunningServer) -> None:
    assert server.tool("list", "nobody", path="/tools") == "no such company"


def test_the_page_shows_a_call_and_its_answer_as_the_server_has_them(server: RunningServer) -> None:
    page = (EXAMPLE / "README.md").read_text()
    shown = re.search(r'^ "arguments": ("(?:[^"\\]|\\.)*"),', page, re.MULTILINE)
    answer = re.search(r'^\{"type": "function_call_output".*$', page, re.MULTILINE)
    assert shown
    assert answer
    output = server.tool("cat", json.loads(json.loads(shown[1]))["path"])
    assert output.startswith(json.loads(answer[0])["output"].removesuffix("..."))


def test_arguments_may_be_an_object(server: RunningServer) -> None:
    call = {"name": "cat", "arguments": {"path": "nowhere"}, "call_id": "call_7", "trace_id": "t"}
    status, reply = server.post("/tools", call)
    assert (status, reply["output"], reply["call_id"]) == (200, "no such file", "call_7")


@pytest.mark.parametrize(
    ("name", "arguments", "status", "reason"),
    [
        ("remove", '{"path": "x"}', 404, "there is no tool 'remove'"),
        ("cat", '{"query": "x"}', 400, "cat needs the string argument 'path'"),
        ("cat", '{"path": 5}', 400, "cat needs the string argument 'path'"),
        ("search", "not json", 400, "search needs the string argument 'query'"),
        ("search", "[]", 400, "search needs the string argument 'query'"),
    ],
)
def test_mistakes_of_the_model_are_told_to_it(
    server: RunningServer, name: str, arguments: str, status: int, reason: str
) -> None:
    call = {"name": name, "arguments": arguments, "call_id": "call_1", "trace_id": "t"}
    assert server.post("/tools", call) == (status, {"error": reason})


@pytest.mark.parametrize(
    ("text", "answer", "score"),
    [
        ("Answer: taxes: 40", 40, 1.0),
        ("I read the report.\nAnswer: taxes: 40\n", 40, 1.0),
        ("Answer: taxes: 40.0", 40, 1.0),
        ("Answer: taxes: 42", 40, 0.5),
        ("Answer: taxes: 38", 40, 0.5),
        ("Answer: taxes: 43", 40, 0.0),
        ("Answer: taxes: 37", 40, 0.0),
        ("Answer: taxes: 40 or 41", 40, 0.0),
        ("Answer: 40", 40, 0.0),
        ("Answer: unknown", 40, 0.0),
        ("40", 40, 0.0),
        ("", 40, 0.0),
        (None, 40, 0.0),
    ],
)
def test_credit(server: RunningServer, text: str | None, answer: float, score: float) -> None:
    assert server.score(text, answer) == score


def test_it_stops_when_told_to(tmp_path: Path) -> None:
    for number, stop in enumerate((signal.SIGINT, signal.SIGTERM)):
        folder = tmp_path / str(number)
        folder.mkdir()
        process = start(folder).process
        process.send_signal(stop)
        assert process.wait(20) in (0, -stop)
