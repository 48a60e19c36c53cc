-- The tokens of rollouts, for readers (`RFT_KEEP_TOKENS`). Found by rollout alone; no list, figure or curve reads them.
-- What is packed is compressed already (`core/rft/core/token_record.py`).

create table rollout_tokens (
    job_id      text not null,
    trace_id    text not null,
    prompt      text not null,                     -- names a row of `token_prompts`
    completion  bytea not null,
    primary key (job_id, trace_id)
);
alter table rollout_tokens alter column completion set storage external;

-- Rollouts of a row have their prompt in common, and all evaluations have.
create table token_prompts (
    job_id  text not null,
    name    text not null,
    ids     bytea not null,
    primary key (job_id, name)
);
alter table token_prompts alter column ids set storage external;

-- What a job's tokens stand for, so that whoever shows them needs no tokenizer, and no model that may be gone.
create table token_pieces (
    job_id    text not null,
    token_id  bigint not null,
    piece     bytea not null,
    primary key (job_id, token_id)
);

-- How the trainer saw the sampled tokens of rollouts that a step trained on.
create table token_ratios (
    job_id      text not null,
    trace_id    text not null,
    advantage   double precision not null,
    log_ratios  bytea not null,                    -- float16, by sampled token
    primary key (job_id, trace_id)
);

create or replace function delete_bulk_rows() returns trigger language plpgsql as $$
begin
    delete from rollouts where job_id = old.id;
    delete from attempts where job_id = old.id;
    delete from begun_rollouts where job_id = old.id;
    delete from rollout_terms where job_id = old.id;
    delete from rollout_tokens where job_id = old.id;
    delete from token_prompts where job_id = old.id;
    delete from token_pieces where job_id = old.id;
    delete from token_ratios where job_id = old.id;
    return null;
end $$;
