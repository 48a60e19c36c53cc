"""Names that were replaced by the field's own do not come back."""

import re
from pathlib import Path

import pytest

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
SOURCES = tuple(
    path
    for root in ("core", "platform", "tool_gateway", "grader_gateway", "trainer")
    for path in (ROOT / root).rglob("*.py")
)
REPLACED = {
    "BegunRun": "RunContext",
    "Background": "LoopThread or TaskSet",
    "Culprit": "FailingEndpoint",
    "MEND_ORDER": "FAIL_JOB",
    "Outside": "CustomerConnections",
    "Remedy": "FailureAction",
    "RoundHopeless": "UnrecoverableRound",
    "Seat": "GroupSlot",
    "Spell": "HoldPeriod",
    "Tables": "RoundState",
    "Ungraded": "PendingGrade",
    "Watch": "RunHealth",
    "all_at_once": "gather_or_cancel",
    "farewell": "notify_ended",
    "heed": "apply",
    "lean_imports": "import_env",
    "open_outside": "open_connections",
    "send_hopeless_home": "fail_waiters",
    "tell_host": "notify_started",
}


@pytest.mark.parametrize(("name", "better"), REPLACED.items())
def test_a_replaced_name_is_gone(name: str, better: str) -> None:
    found = [path.relative_to(ROOT).as_posix() for path in SOURCES if re.search(rf"\b_?{name}\b", path.read_text())]
    assert found == [], f"say {better}"
