"""A database as a busy year leaves it: a million rollouts, one job with ten thousand steps, many smaller jobs."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import Connection, sql
from psycopg.types.json import Jsonb

from rft.core.events import EventLine, RatiosMeasured, RolloutDone, StepDone, TokensSampled
from rft.core.ids import digest, public_id
from rft.core.messages import Message, Role, ToolCall
from rft.core.token_record import pack_float16, pack_tokens
from rft.core.turns import TokenSpan
from rft.platform.worker.metrics_event import GraderLabel, flat_metrics, metrics_event
from rft.platform.worker.step_bucket_repository import STORE_BUCKETS
from tests.shared.train_events import rollout_done, step_done

WORDS = "margin revenue filing segment quarter operating guidance footnote deferred lease hedge accrual ratio of the"
VALIDATED_EVERY = 10
VALID_ROLLOUTS = 16
GROUP = 8
FAILED_EVERY = 23
TEMPLATES = 500
SAMPLED_PERCENT = 40
NOTICE_EVERY = 10
STEPS_WITH_ATTEMPTS = 20
GRADERS = (GraderLabel("judge", "endpoint"),)
OWNER = "bench/1/a"
LEASE_TOKEN = 1


@dataclass(frozen=True, slots=True)
class Size:
    """How much is stored."""

    rollouts: int = 1_000_000
    steps: int = 10_000
    """Of the largest job."""
    jobs: int = 200
    large_share: float = 0.8
    """Part of the rollouts that the largest job has."""

    @property
    def rollouts_per_step(self) -> int:
        """Of the largest job, validation apart; whole groups."""
        per_step = int(self.rollouts * self.large_share / self.steps) // GROUP * GROUP
        return max(GROUP, per_step)


@dataclass(frozen=True, slots=True)
class Stored:
    """What is there."""

    database_url: str
    size: Size
    large_job: str
    """It runs."""
    job_ids: tuple[str, ...]
    rollouts: int
    bytes: int
    fill_s: float


def job_id_of(number: int) -> str:
    """The ids of the bench's jobs; 0 is the largest."""
    return public_id("ftjob-", digest("bench", number))


def fill(database_url: str, size: Size) -> Stored:
    """Store everything in one migrated, empty database, and bring statistics and visibility up to date."""
    began_s = time.monotonic()
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("set synchronous_commit = off")
        connection.execute("set maintenance_work_mem = '512MB'")
        _store_jobs(connection, size)
        _store_tools(connection, size)
        _store_steps(connection, job_id_of(0), size.steps)
        _store_rollouts(connection, size)
        _store_attempts(connection, job_id_of(0), size)
        connection.execute("vacuum (analyze)")
        connection.execute("checkpoint")
        rollouts = _one(connection, "select count(*) from rollouts")
        stored_bytes = _one(connection, "select pg_database_size(current_database())")
    job_ids = tuple(job_id_of(number) for number in range(size.jobs))
    return Stored(database_url, size, job_ids[0], job_ids, rollouts, stored_bytes, time.monotonic() - began_s)


def realistic(rollout: RolloutDone, seed: int) -> RolloutDone:
    """The rollout with a conversation of about 2 kB, all different."""
    messages = (
        Message(role=Role.SYSTEM, content="Answer from the filings. " + prose(seed, 20)),
        Message(role=Role.USER, content=f"What changed in year {seed}? " + prose(seed + 1, 12)),
        Message(role=Role.ASSISTANT, content=prose(seed + 2, 20), tool_calls=(_call(seed),)),
        Message(role=Role.TOOL, content=json.dumps({"hits": [prose(seed + 3, 40)]}), tool_call_id=f"call_{seed}"),
        Message(role=Role.ASSISTANT, content=prose(seed + 4, 58)),
    )
    return rollout.model_copy(update={"messages": messages})


def rollout_lines(job_id: str, step: int, count: int, *, after: int) -> Iterator[EventLine]:
    """A step's rollouts as the trainer logs them."""
    for index in range(count):
        rollout = realistic(rollout_done(job_id, step, index, failed=index % FAILED_EVERY == 0), step * count + index)
        yield EventLine(seq=after + 1 + index, at=time.time(), event=rollout)


def tokens_told(trace_id: str, seed: int) -> tuple[TokensSampled, RatiosMeasured]:
    """What a trainer tells of the rollout's tokens: about as many as its conversation has, two of five sampled."""
    drawn = digest("tokens", seed) * 12
    ids = tuple(byte * 97 + at * 389 % 1500 for at, byte in enumerate(drawn))
    sampled_T = tuple(at % 100 < SAMPLED_PERCENT for at in range(len(ids)))
    logprobs = tuple(-byte / 97 if is_sampled else 0.0 for byte, is_sampled in zip(drawn, sampled_T, strict=True))
    log_ratios = pack_float16(byte / 1e6 for byte, is_sampled in zip(drawn, sampled_T, strict=True) if is_sampled)
    completion = pack_tokens(TokenSpan(ids, sampled_T, logprobs))
    return (
        TokensSampled(trace_id=trace_id, prompt="prompt", completion=completion),
        RatiosMeasured(trace_id=trace_id, advantage=0.5, log_ratios=log_ratios),
    )


def prose(seed: int, words: int) -> str:
    """Text that compresses about as well as text does."""
    known = WORDS.split()
    numbers = digest("prose", seed, words) * (words // 16 + 1)
    return " ".join(f"{known[n % len(known)]}{n * (seed + i) % 997}" for i, n in enumerate(numbers[:words]))


def _call(seed: int) -> ToolCall:
    return ToolCall(call_id=f"call_{seed}", name="search", arguments=json.dumps({"query": prose(seed, 6)}))


def _store_jobs(connection: Connection[Any], size: Size) -> None:
    method = {
        "type": "reinforcement",
        "reinforcement": {
            "grader": {"type": "endpoint", "name": "judge", "url": "http://127.0.0.1:9/grade", "headers": {}},
            "tools": [{"name": name, "server_url": f"http://127.0.0.1:9/{name}"} for name in ("search", "cat")],
            "hyperparameters": {"batch_size": 10, "n_epochs": 10, "compute_multiplier": 1.0, "eval_interval": 10},
        },
    }
    connection.cursor().executemany(
        "insert into jobs (id, status, created_at, started_at, finished_at, model, base_model_path, training_file,"
        " suffix, seed, metadata, method, request, current_step, total_steps, lease_owner, lease_until, lease_token,"
        " trained_tokens) values (%s, %s, now() - make_interval(hours => %s), now() - make_interval(hours => %s),"
        " case when %s then now() end, 'tiny', '/models/tiny', 'file-train', 'bench', 1, %s, %s, %s, %s, %s, %s,"
        " case when %s then now() + interval '7 days' end, %s, 0)",
        [
            (
                job_id_of(number),
                "running" if number == 0 else "succeeded",
                number,
                number,
                number > 0,
                Jsonb({"team": f"team-{number % 7}"}),
                Jsonb(method),
                Jsonb({"model": "tiny", "suffix": "bench", "method": method}),
                size.steps if number == 0 else 20,
                size.steps + 1000 if number == 0 else 20,
                OWNER if number == 0 else None,
                number == 0,
                LEASE_TOKEN,
            )
            for number in range(size.jobs)
        ],
    )


def _store_tools(connection: Connection[Any], size: Size) -> None:
    """Each rollout calls both; a third tool that was called once, long ago."""
    named = enumerate(("search", "cat", "list"))
    rows = [(job_id_of(job), name, bit) for bit, name in named for job in range(size.jobs)]
    connection.cursor().executemany("insert into called_tools (job_id, name, bit) values (%s, %s, %s)", rows)


def _store_steps(connection: Connection[Any], job_id: str, steps: int) -> None:
    with connection.cursor().copy("copy steps (job_id, step, record) from stdin") as copy:
        for step in _steps(steps):
            copy.write_row((job_id, step.step, step.model_dump_json()))
    connection.execute(STORE_BUCKETS, {"job_id": job_id, "first": 1, "last": steps})
    with connection.cursor().copy("copy job_events (id, job_id, level, type, message, data, step) from stdin") as copy:
        for step in _steps(steps):
            event = metrics_event(step, GRADERS)
            event_id = public_id("ftevent-", digest(job_id, "bench", step.step))
            row = (event_id, job_id, "info", "metrics", event.message, json.dumps(event.data), step.step)
            copy.write_row(row)
    with connection.cursor().copy("copy job_events (id, job_id, level, type, message, data) from stdin") as copy:
        for number in range(1, steps + 1, NOTICE_EVERY):
            event_id = public_id("ftevent-", digest(job_id, "notice", number))
            copy.write_row((event_id, job_id, "warn", "message", f"2 rollouts of step {number} were excluded", None))
    with connection.cursor().copy("copy checkpoints (id, job_id, step, path, metrics, is_kept) from stdin") as copy:
        for step in _steps(steps):
            checkpoint_id = public_id("ftckpt_", digest(job_id, "checkpoint", step.step))
            row = (checkpoint_id, job_id, step.step, step.checkpoint.path, json.dumps(flat_metrics(step)))
            copy.write_row((*row, step.step > steps - 3))


def _steps(steps: int) -> Iterator[StepDone]:
    for step in range(1, steps + 1):
        yield step_done(step, steps + 1000, evaluated=step % VALIDATED_EVERY == 0)


def _store_rollouts(connection: Connection[Any], size: Size) -> None:
    """Rows are made by the server out of some hundred conversations: each gets its own key, id and reward."""
    connection.execute("create temp table templates (number integer primary key, record jsonb not null)")
    with connection.cursor().copy("copy templates (number, record) from stdin") as copy:
        for number in range(TEMPLATES):
            copy.write_row((number, realistic(rollout_done("ftjob-x", 1, 1), number).model_dump_json()))
    indexes = connection.execute(
        "select indexname, indexdef from pg_indexes where tablename = 'rollouts' and indexname <> 'rollouts_pkey'"
    ).fetchall()
    for name, _definition in indexes:
        connection.execute(sql.SQL("drop index {}").format(sql.Identifier(name)))
    _insert(connection, job_id_of(0), size.steps, size.rollouts_per_step)
    others = size.jobs - 1
    left = max(0, size.rollouts - size.steps * size.rollouts_per_step)
    for number in range(1, size.jobs):
        _insert(connection, job_id_of(number), 20, max(GROUP, left // others // 20 // GROUP * GROUP))
    for _name, definition in indexes:
        connection.execute(sql.SQL(definition))


def _store_attempts(connection: Connection[Any], job_id: str, size: Size) -> None:
    """The failure ledger of the large job's latest steps; its page looks no further back."""
    connection.execute(
        "insert into attempts (job_id, step, trace_id, stage, endpoint, call_id, attempt, code, status, latency_ms,"
        " queued_ms, sent_bytes, received_bytes, at)"
        " select job_id, step, trace_id, case when n = 0 then 'grader' else 'tool' end,"
        " case n when 0 then 'judge' when 1 then 'search' else 'cat' end, 'call_' || n, 0,"
        " case when reward is null and n = 3 then 'timeout' end, case when reward is null and n = 3 then null else 200"
        " end, 40 + (row_index * 7 + n * 13) %% 200, n, 300, 1200, now()"
        " from rollouts cross join generate_series(0, 3) n where job_id = %s and step > %s",
        (job_id, size.steps - STEPS_WITH_ATTEMPTS),
    )


_INSERT = """
insert into rollouts (trace_id, job_id, split, step, epoch, row_index, group_index, attempt, policy_version, reward,
    failure_code, failure_stage, stop_reason, tool_calls, completion_tokens, duration_s, tool_bits, record)
select id, %(job)s, split, step, 0, row_index, group_index, 0, step,
    case when failed then null else (n %% 101) / 100.0 end,
    case when failed then 'timeout' end, case when failed then 'tool' end, case when failed then null else 'completed'
    end, 3, 400, 1.5, 3,
    record || jsonb_build_object('trace_id', id, 'policy_version', step, 'key', jsonb_build_object(
        'job_id', %(job)s::text, 'job_seed', 1, 'split', split, 'step', step, 'epoch', 0, 'row_index', row_index,
        'index', group_index, 'attempt', 0))
from (
    select 'trace_' || md5(%(job)s::text || split || ':' || step || ':' || n) as id, split, step, n,
        case when split = 'valid' then n else (step * %(rows)s + n / %(group)s) %% 1500 end as row_index,
        case when split = 'valid' then 0 else n %% %(group)s end as group_index,
        (step * 31 + n) %% %(failed)s = 0 as failed
    from generate_series(%(first)s::integer, %(last)s::integer) step
    cross join (values ('train'), ('valid')) splits (split)
    cross join lateral generate_series(0, case
        when split = 'train' then %(per_step)s - 1
        when step %% %(every)s = 0 then %(valid)s - 1 else -1 end) n
) wanted join templates on templates.number = (step * 7 + n) %% %(templates)s
"""


def _insert(connection: Connection[Any], job_id: str, steps: int, per_step: int) -> None:
    for first in range(1, steps + 1, 1000):
        values: dict[str, object] = {
            "job": job_id,
            "first": first,
            "last": min(steps, first + 999),
            "per_step": per_step,
            "rows": per_step // GROUP,
            "group": GROUP,
            "failed": FAILED_EVERY,
            "every": VALIDATED_EVERY,
            "valid": VALID_ROLLOUTS,
            "templates": TEMPLATES,
        }
        connection.execute(_INSERT, values)


def _one(connection: Connection[Any], query: LiteralString) -> int:
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])
