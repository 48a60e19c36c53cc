"""An update on the GPU that the engine samples on: the engine sleeps for as long as it takes."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from rft.core.events import Notice
from rft.core.spec import RunSpec
from rft.engines.base import Engine, SleepingEngine
from rft.trainer.loop_thread import LoopThread


def turns_of(spec: RunSpec, engine: Engine, loop_thread: LoopThread) -> Callable[[], AbstractContextManager[None]]:
    """What to enter while a gradient is computed."""
    if not spec.vllm.takes_turns:
        return nullcontext
    assert isinstance(engine, SleepingEngine), "only vLLM's servers are told to take turns"
    return partial(_asleep, engine, loop_thread)


@contextmanager
def _asleep(engine: SleepingEngine, loop_thread: LoopThread) -> Generator[None]:
    """Where the update fails the run is over: its engine is closed as it is. Raises RunPaused, SamplerError."""
    loop_thread.call(engine.sleep())
    yield
    loop_thread.call(engine.wake_up())


def turns_notice(share: float | None) -> Notice:
    """What the customer is told; `share`: of each GPU, for its server."""
    told = "" if share is None else f" It has {share:.0%} of the memory meanwhile."
    return Notice(
        level="info",
        code="gpu_in_turns",
        message="Rollouts and updates take turns on the GPU: the vLLM server sleeps during an update, and gives its"
        f" memory up for it.{told}",
    )
