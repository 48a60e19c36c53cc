-- A registered multi grader calls under the names of its parts, so one job may use it under several.

alter table registration_uses drop constraint registration_uses_pkey;
alter table registration_uses add primary key (registration_id, job_id, endpoint);
