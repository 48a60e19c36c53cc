-- What is measured and chooses nothing: rows of a test file, or validation rows again with fresh seeds.

alter table jobs
    add column test_file text,
    add column final_figures jsonb;

alter table rollouts
    drop constraint rollouts_split_check,
    add constraint rollouts_split_check check (split in ('train', 'valid', 'test'));
alter table begun_rollouts
    drop constraint begun_rollouts_split_check,
    add constraint begun_rollouts_split_check check (split in ('train', 'valid', 'test'));

create table measurements (
    job_id  text not null references jobs (id) on delete cascade,
    step    integer not null,
    stats   jsonb not null,
    primary key (job_id, step)
);
