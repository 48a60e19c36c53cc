"""A grader that answers so many calls, and lets the others wait until the trainer is gone."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from rft.core.events import RolloutDone
from rft.run_directory import layout
from tests.e2e.trainer.harness import Broken, Customer, Trainer, events


@contextmanager
def only_grades(
    customer: Customer, count: int, *, is_counted: Callable[[dict[str, Any]], bool] = lambda body: True
) -> Generator[None]:
    """Inside, no more than `count` calls of the grader are answered, beside those that do not count."""
    lock, released, left = threading.Lock(), threading.Event(), iter(range(count))

    def wait(path: str, body: dict[str, Any]) -> Broken | None:
        with lock:
            is_answered = path != "/grade" or not is_counted(body) or next(left, None) is not None
        if is_answered:
            return None
        released.wait()
        return Broken()

    customer.fault = wait
    try:
        yield
    finally:
        customer.fault = lambda path, body: None
        released.set()


def wait_for_ends(trainer: Trainer, count: int) -> list[RolloutDone]:
    """So many rollouts have ended; those that are told of. Raises AssertionError when the process goes first."""
    path, deadline = trainer.run_dir / layout.EVENTS, time.monotonic() + 400
    while not path.exists() or path.read_bytes().count(b'"type":"rollout_done"') < count:
        assert trainer.process.poll() is None, (trainer.run_dir / layout.LOG).read_text()[-2000:]
        assert time.monotonic() < deadline, "not so many rollouts end"
        time.sleep(0.01)
    whole = path.read_bytes().rpartition(b"\n")[0] + b"\n"
    assert whole.count(b'"type":"rollout_done"') == count
    return [line.event for line in events(trainer.run_dir) if isinstance(line.event, RolloutDone)]
