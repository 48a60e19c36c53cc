"""A rollout with its conversation goes out as it was stored, and whole however long ago that was."""

import random
from typing import Any

import httpx
import psycopg
import pytest

from rft.core.events import RolloutDone, RunStarted
from rft.core.messages import Message, Role, ToolCall
from rft.core.rollout import RolloutKey, Split
from rft.platform.api.key_repository import create_key
from rft.platform.rollouts.objects import RolloutDetail
from tests.integration.worker.ingesting import leased, store
from tests.integration.worker.test_rollout_search import rollout_at
from tests.integration.worker.workbench import Workbench
from tests.shared.running_api import ReceivedMessages, Served
from tests.shared.train_events import logged

SAID = '"messages":[] \\ \u202e </script> Größe \U0001f600 \x7f'


def rollout(job_id: str) -> RolloutDone:
    """One with everything that a message may have, in text that looks like the reply itself."""
    key = RolloutKey(job_id=job_id, job_seed=1, split=Split.TRAIN, step=1, epoch=0, row_index=3, index=1)
    call = ToolCall(call_id="call_1", name="search", arguments='{"messages":[],  "q":"a"}')
    messages = (
        Message(role=Role.SYSTEM, content=SAID),
        Message(role=Role.USER, content=SAID),
        Message(role=Role.ASSISTANT, content="", reasoning_content=SAID, tool_calls=(call,)),
        Message(role=Role.TOOL, content=SAID, tool_call_id="call_1", name="search"),
        Message(role=Role.ASSISTANT, content=SAID + "x" * 400),
    )
    return rollout_at(key, random.Random(2)).model_copy(update={"messages": messages, "reasoning_tokens": 4})


async def reply(bench: Workbench, done: RolloutDone) -> dict[str, Any]:
    async with await psycopg.AsyncConnection.connect(bench.database_url, autocommit=True) as connection:
        key = await create_key(connection, "tests")
    with Served(bench.settings, ReceivedMessages()) as port:
        url = f"http://127.0.0.1:{port}/v1/fine_tuning/jobs/{done.key.job_id}/rollouts/{done.trace_id}"
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
            answered = (await client.get(url)).raise_for_status()
    assert answered.headers["content-type"] == "application/json"
    return answered.json()


@pytest.fixture
async def stored(bench: Workbench) -> RolloutDone:
    ingest = await leased(bench)
    done = rollout(ingest.lease.id)
    await store(bench, ingest, logged([RunStarted(resumed_from_step=None, total_steps=1, pid=1), done]))
    return done


async def test_a_reply_has_all_that_was_reported(bench: Workbench, stored: RolloutDone) -> None:
    shown = await reply(bench, stored)
    assert shown["record"] == stored.model_dump(mode="json")
    assert shown.keys() == RolloutDetail.model_fields.keys()
    detail = RolloutDetail.model_validate(shown)
    assert (detail.id, detail.status, detail.superseded_by) == (stored.trace_id, "ended", None)
    assert (detail.row_index, detail.group_index, detail.duration_s) == (3, 1, stored.duration_s)
    assert (detail.prompt, detail.answer) == (SAID, (SAID + "x" * 400)[:300])


LEFT_OUT = [name for name, field in Message.model_fields.items() if not field.is_required()]


@pytest.mark.parametrize("name", LEFT_OUT)
async def test_what_was_stored_before_messages_had_a_field_has_its_default(
    bench: Workbench, stored: RolloutDone, name: str
) -> None:
    async with await psycopg.AsyncConnection.connect(bench.database_url, autocommit=True) as connection:
        await connection.execute(
            "update rollouts set record = jsonb_set(record - '{reasoning_tokens,turn_times}'::text[], '{messages}',"
            " (select jsonb_agg(one - %s::text order by place)"
            " from jsonb_array_elements(record -> 'messages') with ordinality as said (one, place)))",
            (name,),
        )
    default = Message.model_fields[name].get_default()
    messages = tuple(message.model_copy(update={name: default}) for message in stored.messages)
    older = stored.model_copy(update={"messages": messages, "reasoning_tokens": 0, "turn_times": ()})
    assert (await reply(bench, stored))["record"] == older.model_dump(mode="json")
