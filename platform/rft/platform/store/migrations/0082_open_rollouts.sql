-- Whether customers' servers may still wait for the ends of rollouts that a job's killed trainer left open.
alter table jobs add column may_have_open_rollouts boolean not null default false;

update jobs set may_have_open_rollouts = true
where started_at is not null and status in ('queued', 'running', 'paused');
