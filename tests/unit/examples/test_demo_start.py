"""`make demo` beside a platform that runs in its home leaves that platform and its files alone."""

import importlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists()) / "examples"


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with its neighbours where it looks for them."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("examples.demo")


def nothing(*_: object) -> None:
    """In place of what would outlast the test."""


def test_a_home_in_use_is_left_as_it_is(demo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rft = tmp_path / "bin" / "rft"
    rft.parent.mkdir()
    rft.write_text("#!/bin/sh\necho another rft up is using it >&2\nexit 1\n")
    rft.chmod(0o755)
    monkeypatch.setattr(demo, "BIN", rft.parent)
    monkeypatch.setattr(signal, "signal", nothing)
    monkeypatch.setattr(sys, "argv", ["demo.py", "--out", str(tmp_path / "out")])
    kept = {tmp_path / "out" / name: name for name in ("home/connection.json", "work/platform.log", "work/server.port")}
    for path in kept:
        path.parent.mkdir(parents=True, exist_ok=True)
    for path in kept:
        path.write_text(json.dumps({"pid": 1}))
    with pytest.raises(SystemExit, match="did not start"):
        demo.main()
    assert {path.read_text() for path in kept} == {json.dumps({"pid": 1})}


def test_the_record_of_another_platform_is_not_taken_for_the_own(demo: ModuleType, tmp_path: Path) -> None:
    record, log = tmp_path / "connection.json", tmp_path / "log"
    log.write_text("")
    record.write_text(json.dumps({"pid": 1}))
    script = f"import json, os, pathlib, time; time.sleep(0.3); p = pathlib.Path({str(record)!r})\n"
    script += "n = p.with_name('new'); n.write_text(json.dumps({'pid': os.getpid()})); n.replace(p); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script]) as child:
        began = time.monotonic()
        found = demo.wait_for_platform(record, child, log)
        child.kill()
    assert (found["pid"], time.monotonic() - began >= 0.3) == (child.pid, True)
