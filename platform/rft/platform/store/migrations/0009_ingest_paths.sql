-- What every step writes is found along an index, however long the job is (`make bench-api`).

-- A step keeps its own checkpoint and lets a few older ones go.
create index checkpoints_kept on checkpoints (job_id, step) where is_kept;
