-- A trainer reads and drops what was handed over in its order: without an index each look sorts all that waits.
create index inbox_rollouts_in_order on inbox_rollouts (job_id, position);
