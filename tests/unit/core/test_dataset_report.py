"""The dataset validator: whatever the chunks, the report is the same, and it counts everything."""

import itertools
import json
from codecs import BOM_UTF8
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rft.core.dataset import MAX_ROW_BYTES
from rft.core.dataset_lines import LineSplitter
from rft.core.dataset_report import DatasetCheck, DatasetReport, check_dataset, shared_rows


def row(text: str = "How much?", *tools: str, **extra: Any) -> dict[str, Any]:
    """One good row."""
    described = [{"type": "function", "function": {"name": name}} for name in tools]
    return {"messages": [{"role": "user", "content": text}], **({"tools": described} if tools else {}), **extra}


def jsonl(*rows: object) -> bytes:
    """Rows as a file."""
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in rows)


def test_a_good_file_is_described() -> None:
    report = check_dataset([jsonl(row("a", "search"), row("b" * 400, "search", "cat"))])
    assert report.is_usable
    assert (report.rows, report.problems, report.summary()) == (2, 0, None)
    assert report.tools == {"search": 1, "cat": 2}
    assert report.longest_row_line == 2
    assert report.longest_row_tokens > 100


def test_every_bad_line_is_counted_and_the_first_are_shown() -> None:
    content = jsonl(row()) + b"\n" + b"{oops\n" + b'{"messages": []}\n' * 24
    report = check_dataset([content])
    assert (report.rows, report.problems, len(report.shown_problems)) == (1, 25, 20)
    summary = report.summary()
    assert summary is not None
    lines = summary.splitlines()
    assert lines[0] == "25 problems:"
    assert lines[1].startswith("line 3: not JSON")
    assert lines[-1] == "and 5 more"
    assert not report.is_usable


def test_a_file_with_too_many_problems_is_not_read_on() -> None:
    told: list[tuple[int, str]] = []
    check = DatasetCheck(max_problems=30, on_problem=lambda problem: told.append((problem.line, problem.reason[:8])))
    report = check_dataset([jsonl(row()) + b"{oops\n" * 30 + b"\n", jsonl(row(), row()), b"{oops\n" * 9], check)
    assert (report.rows, report.problems, report.stopped_at_line) == (1, 30, 33)
    assert check.is_over
    summary = report.summary()
    assert summary is not None
    assert summary.startswith("30 problems, not read from line 33 on:\nline 2: not JSON")
    assert summary.endswith("and 10 more")
    assert told == [*((line, "not JSON") for line in range(2, 32)), (33, "not read")]


def test_a_file_with_just_as_many_problems_is_read_whole() -> None:
    report = check_dataset([b"{oops\n" * 30 + b"\n\n"], DatasetCheck(max_problems=30))
    assert (report.problems, report.stopped_at_line) == (30, None)


@pytest.mark.lengthy
def test_empty_lines_are_read_within_reason() -> None:
    report = check_dataset([b"\n" * 1_000_000, jsonl(row())])
    assert (report.rows, report.problems) == (1, 0)
    report = check_dataset([b" \n" * 1_000_001, jsonl(row())])
    assert (report.rows, report.summary()) == (
        0,
        "1 problem, not read from line 1,000,001 on:\nline 1000001: more than 1,000,000 empty lines",
    )


@pytest.mark.lengthy
def test_hostile_files_cost_no_more_than_their_first_problems() -> None:
    for line in (b"x\n", b"\n", b"{}\n", b'{"messages": 1}\n'):
        check, fed = DatasetCheck(), 0
        while not check.is_over and fed < 64:
            check.feed(line * ((1 << 20) // len(line)))
            fed += 1
        assert fed <= 2, line


def test_a_byte_order_mark_before_an_empty_line_does_no_harm() -> None:
    content = b"\xef\xbb\xbf\r\n" + jsonl(row("a"), row("b"))
    for size in (1, 2, 4, len(content)):
        report = check_dataset(content[start : start + size] for start in range(0, len(content), size))
        assert (report.rows, report.problems) == (2, 0)
    assert check_dataset([jsonl(row()), b"\xef\xbb\xbf", jsonl(row())]).problems == 1


def test_an_empty_file_holds_no_rows() -> None:
    report = check_dataset([b"\n  \n"])
    assert (report.summary(), report.is_usable) == ("no rows", False)


def test_rows_beyond_the_limit_are_one_problem() -> None:
    report = check_dataset([jsonl(*(row(n=n) for n in range(7)))], DatasetCheck(max_rows=3))
    assert report.problems == 1
    assert str(report.shown_problems[0]) == "line 4: more than 3 rows"


def test_equal_rows_are_found_whatever_the_order_of_their_keys() -> None:
    first, second = row(answer=1, note="x"), dict(reversed(row(answer=1, note="x").items()))
    report = check_dataset([jsonl(first, row(answer=2), second, first)])
    assert report.duplicates == 2
    assert [(pair.line, pair.same_as) for pair in report.shown_duplicates] == [(3, 1), (4, 1)]
    assert report.is_usable, "equal rows are worth a warning, not a refusal"


def test_rows_shared_by_two_files_are_found() -> None:
    train, valid = DatasetCheck(), DatasetCheck()
    check_dataset([jsonl(row("a"), row("b"), row("c"))], train)
    check_dataset([jsonl(row("x"), row("c"), row("c"))], valid)
    assert [(pair.line, pair.same_as) for pair in shared_rows(train, valid)] == [(2, 3)]


def test_rows_may_describe_registered_tools_only() -> None:
    flat = {"messages": row()["messages"], "tools": [{"type": "function", "name": "browse", "parameters": {}}]}
    report = check_dataset([jsonl(row("a", "search", "peek"), flat)], DatasetCheck(registered=["search"]))
    assert [problem.path for problem in report.shown_problems] == ["tools[1].function.name", "tools[0].name"]
    assert "'browse' is not among the job's tools (search)" in report.shown_problems[1].reason


def test_rows_that_may_not_fit_the_context_are_named() -> None:
    report = check_dataset([jsonl(row("a"), row("b" * 4000), row("c"))], DatasetCheck(context_tokens=1000))
    assert (report.too_long, report.shown_too_long) == (1, (2,))


def test_other_scripts_take_a_token_for_every_character() -> None:
    report = check_dataset([jsonl(row("a" * 4000), row("漢" * 4000))])
    assert report.longest_row_line == 2
    assert 4000 <= report.longest_row_tokens < 4100


def test_a_line_without_end_is_one_problem_and_never_whole_in_memory() -> None:
    check = DatasetCheck()
    for _ in range(64):
        check.feed(b"x" * (1 << 20))
    check.feed(b"\n" + jsonl(row()))
    report = check.end()
    assert (report.rows, report.problems) == (1, 1)
    assert "longer than" in report.shown_problems[0].reason


def test_a_row_of_the_longest_length_is_fine() -> None:
    frame = len(json.dumps(row("")))
    report = check_dataset([jsonl(row("x" * (MAX_ROW_BYTES - frame))), jsonl(row("x" * (MAX_ROW_BYTES - frame + 1)))])
    assert (report.rows, [problem.line for problem in report.shown_problems]) == (1, [2])


def test_a_report_survives_storage() -> None:
    report = check_dataset([jsonl(row("a", "search"), row("a", "search")) + b"{\n"])
    assert DatasetReport.model_validate_json(report.model_dump_json()) == report


@given(
    lines=st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b""))),
    cuts=st.lists(st.integers(0, 200)),
)
def test_lines_do_not_depend_on_the_chunks(lines: list[bytes], cuts: list[int]) -> None:
    content = b"\n".join(lines)
    places = sorted({0, len(content), *(cut for cut in cuts if cut < len(content))})
    splitter = LineSplitter(max_bytes=1000)
    found = [line for a, b in itertools.pairwise(places) for line in splitter.feed(content[a:b])]
    found += splitter.end()
    wanted = content.split(b"\n")
    assert found == (wanted if wanted[-1] else wanted[:-1])


@given(st.binary(), st.integers(1, 20))
@example(BOM_UTF8, 1)
def test_any_bytes_have_a_report_and_lines_add_up(content: bytes, size: int) -> None:
    chunks = [content[start : start + size] for start in range(0, len(content), size)]
    report = check_dataset(chunks)
    lines = content.removeprefix(BOM_UTF8).split(b"\n")
    assert report.rows + report.problems == sum(bool(line.strip()) for line in lines)
