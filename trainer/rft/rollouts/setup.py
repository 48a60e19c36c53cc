"""What all rollouts of a run share."""

import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rft.chat.chat_format import ChatFormat
from rft.core.dataset import DatasetRow
from rft.core.events import RolloutBegan, RoundRedone
from rft.core.ids import trace_id
from rft.core.spec import Budgets
from rft.grader_gateway.grader import Grader, GroupGrader
from rft.rollouts.deadlines import Deadlines
from rft.rollouts.gateways import RolloutHost, ToolGateway
from rft.rollouts.hold import Hold
from rft.rollouts.live import LiveRollouts
from rft.rollouts.sampler import Sampler

if TYPE_CHECKING:
    from rft.rollouts.rollout_executor import RolloutExecutor

Clock = Callable[[], float]
"""Seconds from an arbitrary start, never going back."""


def random_trace_id() -> str:
    """The public id of one conversation; never drawn twice, whoever seeds the process's generators."""
    return trace_id(uuid.uuid4())


@dataclass(slots=True)
class Prompts:
    """The prompts of a round's rows as token ids: rendered by a row's first rollout, for all of them."""

    _by_row: dict[int, tuple[DatasetRow, tuple[int, ...]]] = field(
        default_factory=dict[int, tuple[DatasetRow, tuple[int, ...]]]
    )
    """By identity; each row is kept with its prompt, so that an id never comes to mean another one."""

    def of(self, row: DatasetRow, chat_format: ChatFormat) -> tuple[int, ...]:
        """The whole prompt of the row."""
        known = self._by_row.get(id(row))
        if known is None:
            known = self._by_row[id(row)] = (row, tuple(chat_format.prompt_ids(row.messages, row.tools)))
        return known[1]

    def forget(self) -> None:
        """The round is over."""
        self._by_row.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSetup:
    """What all rollouts of a run share, whether tokens or messages are sampled."""

    tools: ToolGateway
    grader: Grader | None
    """None where nobody judges single rollouts."""
    grader_name: str
    budgets: Budgets
    model_name: str
    has_tool_servers: bool = True
    """Else nobody answers the functions that rows describe: a rollout ends with the model's first calls of them."""
    host: RolloutHost | None = None
    """Who is told that a rollout begins and ends."""
    deadlines: Deadlines = field(default_factory=Deadlines)
    draw_trace_id: Callable[[], str] = random_trace_id
    """Called once for each conversation that begins."""
    clock: Clock = time.monotonic
    """Measures durations only; the deadline is kept by the event loop."""
    wall_clock: Clock = time.time
    """Says when turns begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSetup(SharedSetup):
    """What all rollouts of tokens share."""

    sampler: Sampler
    chat_format: ChatFormat
    temperature: float
    group_grader: GroupGrader | None = None
    """Judges all rollouts of a group at once, instead of `grader` each alone."""
    hold: Hold | None = None
    """Lets rounds wait for endpoints that are down; None: they are used as they come out."""
    prompts: Prompts = field(default_factory=Prompts)
    live: LiveRollouts = field(default_factory=LiveRollouts)
    """Knows what the rollouts are doing now."""
    on_begun: Callable[[RolloutBegan], Awaitable[None]] | None = None
    """Waited for before a conversation's first call to a customer's endpoint. An exception stops the step."""
    platform_failure_share: float = 0.25
    """A round of which the platform lost a larger share of rollouts is not used."""
    on_redo: Callable[[RoundRedone], None] | None = None
    """Told before such a round is rolled out anew. An exception stops the round."""
    follows_policy: bool = False
    """Each turn is sampled by the newest policy version; else all by the one that the rollout began with."""
    executor: "RolloutExecutor | None" = None
    """Who runs the rollouts; None: this process."""
