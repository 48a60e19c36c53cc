"""Which calls of stored rollouts two policies are compared by: those that the policy made."""

from rft.core.events import RolloutDone
from rft.core.messages import Message, Role, ToolCall
from rft.core.rollout import Split
from rft.platform.rollouts.call_repository import calls_of_graded
from rft.platform.rollouts.row_reward_repository import graded_rollouts
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.workbench import Workbench
from tests.shared.train_events import logged, rollout_done


def said(*calls: str) -> Message:
    made = tuple(ToolCall(call_id=f"call_{each}", name="search", arguments=each) for each in calls)
    return Message(role=Role.ASSISTANT, content="", tool_calls=made)


def rollout(job_id: str, row: int, *messages: Message, turns: int, made: int) -> RolloutDone:
    done = rollout_done(job_id, 1, 2 * row, split=Split.VALID)
    asked = Message(role=Role.USER, content="How much?")
    changes = {"messages": (asked, *messages), "turns": turns, "tool_calls": {"search": made} if made else {}}
    return done.model_copy(update=changes)


async def test_calls_of_the_prompt_and_refused_ones_are_not_the_policys(bench: Workbench) -> None:
    ingest = await leased(bench)
    job_id, example = ingest.lease.id, (said("example"), said("example"))
    rollouts = [
        rollout(job_id, 0, *example, said("a", "b"), said("b", "refused"), said("refused"), turns=3, made=3),
        rollout(job_id, 1, *example, turns=0, made=0),
        rollout(job_id, 2, *example, said(), turns=1, made=0),
    ]
    await store(bench, ingest, logged(rollouts))
    async with bench.database.transaction() as connection:
        found = await calls_of_graded(connection, job_id, Split.VALID, 1, limit=10)
        graded = await graded_rollouts(connection, job_id, Split.VALID, 1, limit=10)
    assert [(each.row_index, [call.arguments for call in each.calls]) for each in found] == [
        (0, ["a", "b", "b"]),
        (1, []),
        (2, []),
    ]
    assert [(each.row_index, each.tool_calls, each.calls_by_tool) for each in graded] == [
        (0, 3, {"search": 3}),
        (1, 0, {}),
        (2, 0, {}),
    ]
