"""What is searched in the bench's rollouts: the terms of all, and a word that only a few of them have."""

from typing import Any, LiteralString

import psycopg
from psycopg import Connection

from tests.bench.api_data import GROUP, TEMPLATES, Stored

RARE = "quagmire"
RARE_EVERY = 400
"""One rollout has the rare word for so many steps."""


def fill_terms(stored: Stored) -> None:
    """As ingest stores them of a job whose steps come whole."""
    with psycopg.connect(stored.database_url, autocommit=True) as connection:
        connection.execute("set synchronous_commit = off")
        connection.execute("set work_mem = '256MB'")
        values: dict[str, object] = {
            "job": stored.large_job,
            "rows": stored.size.rollouts_per_step // GROUP,
            "group": GROUP,
            "templates": TEMPLATES,
            "rare": RARE,
            "every": RARE_EVERY,
        }
        _run(connection, "drop index rollout_terms_of_text")
        for statement in (_TEMPLATES, _TERMS, _RARE_ANSWERS, _RARE_TERMS):
            _run(connection, statement, values)
        _run(
            connection, "create index rollout_terms_of_text on rollout_terms using gin (terms) with (fastupdate = off)"
        )
        _run(connection, "vacuum (analyze)")


def _run(connection: Connection[Any], statement: LiteralString, values: dict[str, object] | None = None) -> None:
    connection.execute(statement, values)


_TEMPLATES: LiteralString = """
create temp table template_terms as
select number, array_agg(word) as terms
from (
    select distinct on (number) *
    from (
        select (step * 7 + case when split = 'valid' then row_index
            else (row_index - step * %(rows)s %% 1500 + 1500) %% 1500 * %(group)s + group_index end) %% %(templates)s
            as number, record
        from rollouts where job_id = %(job)s and step <= 700
    ) as numbered
) as templates
cross join lateral regexp_split_to_table(
    lower(rollout_prompt(record) || ' ' || rollout_answer(record)), '[^[:alnum:]]+') as found (word)
where word <> ''
group by number
"""
_TERMS: LiteralString = """
insert into rollout_terms (job_id, split, step, rows, terms)
select job_id, split, step, array_agg(distinct row_index),
    array_to_tsvector(array_agg(term) || (job_id || '/' || step / 32))
from (
    select job_id, split, step, row_index, (step * 7 + case when split = 'valid' then row_index
        else (row_index - step * %(rows)s %% 1500 + 1500) %% 1500 * %(group)s + group_index end) %% %(templates)s
        as number
    from rollouts where job_id = %(job)s
) as numbered
join template_terms using (number)
cross join lateral unnest(terms) as each (term)
group by job_id, split, step
"""
_RARE_ANSWERS: LiteralString = """
update rollouts set record = jsonb_set(record, '{messages,-1,content}', to_jsonb('a ' || %(rare)s::text || ' of it'))
where job_id = %(job)s and split = 'train' and step %% %(every)s = 0 and group_index = 0
    and row_index = step * %(rows)s %% 1500
"""
_RARE_TERMS: LiteralString = """
insert into rollout_terms (job_id, split, step, rows, terms)
select job_id, split, step, array[row_index], array_to_tsvector(array[%(rare)s, job_id || '/' || step / 32])
from rollouts
where job_id = %(job)s and split = 'train' and step %% %(every)s = 0 and group_index = 0
    and row_index = step * %(rows)s %% 1500
"""
