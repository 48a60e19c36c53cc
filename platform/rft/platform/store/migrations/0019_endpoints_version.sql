-- Counts changes of a job's tool and grader addresses and headers: whose trainer runs with an older count is started anew.

alter table jobs add column endpoints_version integer not null default 0;
