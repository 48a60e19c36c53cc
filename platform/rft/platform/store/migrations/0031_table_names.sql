-- Tables by the usual words for what they hold.

alter table loose_bytes rename to orphaned_blobs;
alter index loose_bytes_pkey rename to orphaned_blobs_pkey;
alter index loose_bytes_due rename to orphaned_blobs_due;
alter table departed rename to deleted_cursors;
alter index departed_pkey rename to deleted_cursors_pkey;
alter index departed_oldest rename to deleted_cursors_oldest;
