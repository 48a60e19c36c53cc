-- Tools that answered a call of the sample as if they were not there: its verdict is withdrawn where they really are not.
alter table eval_output_items add column tools_not_found text[] not null default '{}';
