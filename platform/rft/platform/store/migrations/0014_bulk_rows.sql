-- Rows that come by the thousand are stored with as little beside them as can be (`make bench-api`).

-- A foreign key looks its job up once more for every row, though whoever stores these rows holds the job's own row
-- locked, and so knows that it is there. What the key did for a job that is deleted, this trigger does.
alter table rollouts drop constraint rollouts_job_id_fkey;
alter table attempts drop constraint attempts_job_id_fkey;
create function delete_bulk_rows() returns trigger language plpgsql as $$
begin
    delete from rollouts where job_id = old.id;
    delete from attempts where job_id = old.id;
    return null;
end $$;
create trigger bulk_rows_go_with_their_job after delete on jobs
    for each row execute function delete_bulk_rows();

-- One index in place of three, and its newest part is all that is written to: what is read is read by step.
alter table attempts drop constraint attempts_pkey;
alter table attempts add primary key (job_id, step, trace_id, id);
drop index attempts_of_rollout;
drop index attempts_by_step;

-- A step of ordinary size is stored as it comes: 500 of them are read at once, and each would be unpacked.
alter table steps set (toast_tuple_target = 4080);
