"""Jobs, registered graders and evals that have a judge, read of the newest of each."""

from typing import LiteralString

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.dashboard.judge_uses import JudgeUser, judges_in

_MOST = 200
"""Of jobs, of graders and of evals."""


async def judge_users(connection: AsyncConnection[TupleRow]) -> list[JudgeUser]:
    """Newest first."""
    cursor = await connection.execute(_USERS, {"most": _MOST})
    return [
        JudgeUser(kind, id, name, status, created_at, has_begun, judges)
        for kind, id, name, status, created_at, has_begun, graders in await cursor.fetchall()
        if (judges := tuple(judges_in(graders)))
    ]


_JUDGED: LiteralString = (
    " @? '$.** ? (@.type == \"score_model\" || @.type == \"label_model\" || @.type == \"ruler\")'"
)  # fmt: skip
_USERS: LiteralString = (
    "select * from ("
    "(select 'job' as kind, id, suffix as name, status, created_at, started_at is not null as has_begun,"
    "  method->'reinforcement'->'grader' as graders from jobs order by created_at desc limit %(most)s)"
    " union all"
    " (select 'grader', id, body->>'name', null, created_at, false, body from registrations where kind = 'grader'"
    "  order by created_at desc limit %(most)s)"
    " union all"
    " (select 'eval', id, name, null, created_at, false, testing_criteria from evals"
    "  order by created_at desc limit %(most)s)"
    ") as users where graders" + _JUDGED + " order by created_at desc, id"
)
