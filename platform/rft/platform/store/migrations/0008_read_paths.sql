-- What is read often is read along an index, however much is stored (`make bench-api`).

-- Pages of rollouts: newest step first, then upwards. Every page walks each split by itself.
drop index rollouts_by_step;
create index rollouts_newest on rollouts (job_id, split, step desc, row_index, group_index, attempt);
create index rollouts_failed on rollouts (job_id, split, step desc, row_index, group_index, attempt)
    where reward is null;
create index rollouts_of_row on rollouts (job_id, row_index, split, step desc, group_index, attempt);

-- A sample of a long job's steps keeps the ones that were validated.
create index steps_evaluated on steps (job_id, step) where jsonb_typeof(record->'valid') = 'object';

-- A rollout of ordinary size is stored as it comes: compressing it costs twice as much as all the rest of storing it.
alter table rollouts set (toast_tuple_target = 4080);
