-- A bucket's row is written with the step that completes it (`rollouts/curve_repository.py`), no longer by triggers.

create table step_buckets (
    job_id      text not null,
    last_step   integer not null,                   -- of 256 in a row, all of them done
    steps       bigint not null,
    rollouts    bigint not null,
    excluded    bigint not null,
    extremes    integer[] not null,                 -- the steps where one of the curves is lowest or highest
    primary key (job_id, last_step),
    -- A run that goes back to a checkpoint voids steps, and the buckets they complete.
    foreign key (job_id, last_step) references steps (job_id, step) on delete cascade
);
insert into step_buckets
    select job_id, last_step, steps, rollouts, excluded,
        array(select distinct step from unnest(lowest_at || highest_at) as step where step is not null)
    from step_stretches;

drop trigger stretch_is_complete on steps;
drop trigger stretch_has_changed on steps;
drop function remember_stretch();
drop function measured_stretch(text, integer, integer);
drop table step_stretches;
