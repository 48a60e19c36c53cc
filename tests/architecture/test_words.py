"""Names that were replaced by the field's own do not come back."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
MIGRATIONS = ROOT / "platform/rft/platform/store/migrations"
FROZEN_MIGRATIONS = frozenset({1, 4, 5, 7, 13, 20, 28, 31})
"""Numbers of the migrations that name things as they were called then: an applied file is never changed."""

PYTHON = tuple(
    path
    for root in ("core", "platform", "tool_gateway", "grader_gateway", "trainer", "examples")
    for path in sorted((ROOT / root).rglob("*.py"))
)
WEB = tuple(
    path
    for path in sorted((ROOT / "web/src").rglob("*"))
    if path.suffix in (".ts", ".tsx", ".css") and path.name != "schema.d.ts"
)
DOCS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
NEW_SQL = tuple(path for path in sorted(MIGRATIONS.glob("*.sql")) if int(path.name[:4]) not in FROZEN_MIGRATIONS)

REPLACED = {
    "BegunRun": "RunContext",
    "Background": "LoopThread or TaskSet",
    "Bell": "TaskMessage",
    "Culprit": "FailingEndpoint",
    "Door": "AuthMiddleware",
    "LooseBytes": "OrphanedBlobs",
    "MEND_ORDER": "FAIL_JOB",
    "Outside": "CustomerConnections",
    "Remedy": "FailureAction",
    "RoundHopeless": "UnrecoverableRound",
    "Seat": "GroupSlot",
    "Spell": "HoldPeriod",
    "Standstill": "HoldBanner or HoldNotice",
    "StandstillBanner": "HoldBanner",
    "Stretch": "StepBucket",
    "Tables": "RoundState",
    "ToolDesk": "ServiceDefinition",
    "Trade": "ServiceDefinition",
    "Ungraded": "PendingGrade",
    "Watch": "RunHealth",
    "Wish": "RequestedAction",
    "Workplace": "WorkerContext or RunContext",
    "all_at_once": "gather_or_cancel",
    "blot": "redact",
    "farewell": "notify_ended",
    "heed": "apply",
    "knock": "probe",
    "last_words": "drain_pending or exit_summary",
    "lean_imports": "import_env",
    "occasion": "idempotency_scope",
    "open_outside": "open_connections",
    "rung_at": "enqueued_at",
    "send_hopeless_home": "fail_waiters",
    "tell_host": "notify_started",
    "thinned": "downsample",
}
"""Not as a whole word: nowhere in Python, TypeScript and new SQL, and in no code of the docs."""

IDENTIFIERS = {
    "Room": "ServiceDefinition",
    "Table": "GroupState",
    "at_once": "gather_or_cancel",
    "course": "series",
    "departed": "deleted_cursors",
    "door": "AuthMiddleware",
    "garbage": "gc_tuning",
    "judged": "graded",
    "laid": "empty",
    "mask": "redact",
    "masked": "redacted",
    "next_attempt": "replacement_key",
    "own_limits": "per_process_limits",
    "ring": "enqueue",
    "standstill": "holdNotice",
    "talk": "conversation",
    "wish": "RequestedAction",
    "words": "message, summary or sentence",
}
"""Words that prose needs: not as an identifier of Python or TypeScript. `ANOTHER_SENSE` has what they may name."""

ANOTHER_SENSE = {
    # Tables on a terminal or of the database.
    "Table": {
        "bulk_repository.py",
        "pages.py",
        "demo_report.py",
        "stored_url_repository.py",
        "stored_urls.py",
    },
    # HTTP attempts.
    "next_attempt": {"retry.py"},
    # Tokens of the loss, and what attention may see.
    "mask": {"grpo.py", "kv_slots.py"},
    # Texts cut into words, and how many words a made-up answer has.
    "words": {
        "corpus.py",
        "encoding.py",
        "redaction.py",
        "rehearsal_arguments.py",
        "samplers.py",
        "similarity.py",
        "warmup.py",
    },
}
METAPHORS = ("house", "rooms", "doors")
"""For layout and packages, in docs."""


def _found(names: str, files: Iterator[tuple[Path, str]]) -> list[str]:
    word = re.compile(rf"(?<![\w.])_?{names}\b")
    return [path.relative_to(ROOT).as_posix() for path, text in files if word.search(text)]


def _code_of_docs() -> Iterator[tuple[Path, str]]:
    for path in DOCS:
        yield path, "\n".join(re.findall(r"```.*?```|`[^`\n]+`", path.read_text(), re.DOTALL))


def _identifiers() -> Iterator[tuple[Path, set[str]]]:
    for path in PYTHON:
        tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        yield path, {token.string for token in tokens if token.type == tokenize.NAME}
    for path in WEB:
        if path.suffix != ".css":
            code = re.sub(r"/\*.*?\*/|//[^\n]*|\"[^\"\n]*\"|>[^<>{}]*<", " ", path.read_text(), flags=re.DOTALL)
            yield path, set(re.findall(r"\w+", code))


@pytest.mark.parametrize(("name", "better"), REPLACED.items())
def test_a_replaced_name_is_gone(name: str, better: str) -> None:
    sources = ((path, path.read_text()) for path in (*PYTHON, *WEB, *NEW_SQL))
    assert _found(name, sources) + _found(name, _code_of_docs()) == [], f"say {better}"


def test_a_word_with_other_senses_names_nothing_of_what_was_renamed() -> None:
    found = {
        f"{path.relative_to(ROOT).as_posix()}: {name}, say {better}"
        for path, names in _identifiers()
        for name, better in IDENTIFIERS.items()
        if names & {name, f"_{name}"} and path.name not in ANOTHER_SENSE.get(name, ())
    }
    assert found == set()


def test_new_tables_and_columns_have_the_new_names() -> None:
    names = "|".join((*REPLACED, "departed", "masked", "ring", "talk", "wish", "words"))
    assert _found(f"(?:{names})", ((path, path.read_text()) for path in NEW_SQL)) == []


@pytest.mark.parametrize("metaphor", METAPHORS)
def test_docs_speak_of_layout_and_packages(metaphor: str) -> None:
    assert _found(metaphor, ((path, path.read_text()) for path in DOCS)) == []


def test_frozen_migrations_are_there() -> None:
    assert {int(path.name[:4]) for path in MIGRATIONS.glob("*.sql")} >= FROZEN_MIGRATIONS
