"""Secrets of a run come over a pipe; nobody at a terminal is waited for."""

import io
import sys

import pytest

from rft.core.spec import RunSecrets
from rft.trainer import evaluate
from rft.trainer.given_secrets import read_secrets


class Terminal(io.StringIO):
    """Somebody who types nothing."""

    def isatty(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> str:
        raise AssertionError("it would wait for ever")


def test_what_stands_on_standard_input_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"grader_headers": {"X-Key": "hush"}}'))
    assert read_secrets() == RunSecrets(grader_headers={"X-Key": "hush"})


def test_an_evaluation_by_hand_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[RunSecrets]()

    def evaluated(run_dir: object, secrets: RunSecrets, wanted: object) -> list[object]:
        given.append(secrets)
        return []

    monkeypatch.setattr(evaluate, "evaluate", evaluated)
    monkeypatch.setattr(sys, "argv", ["evaluate", "run", "--step", "0"])
    monkeypatch.setattr(sys, "stdin", Terminal())
    evaluate.main()
    assert given == [RunSecrets()]
