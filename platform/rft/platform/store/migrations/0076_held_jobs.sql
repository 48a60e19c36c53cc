-- Every open page of the dashboard asks now and then which jobs are held.

create index jobs_held on jobs (created_at desc, id) where hold is not null;
