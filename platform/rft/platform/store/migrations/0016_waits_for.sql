-- A queued job says why it waits: these jobs had the slots of the hosts that would not run it. Read only as far as true:
-- while it is queued, and of these jobs only those that still have a slot.

alter table jobs add column waits_for text[];
