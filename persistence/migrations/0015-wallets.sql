-- When the key of a wallet leaves this station, and how long it stays.

-- Money that a sweep has moved may come back with a reorganisation until its block is final.
alter table sweeps add column final_at timestamptz;
update sweeps set final_at = ended_at where state = 'done' and ended_at < now() - interval '1 hour';
create index sweeps_unfinal on sweeps (chain, block) where state = 'done' and final_at is null;

-- When the key was first given in an answer. One that nobody has read is kept.
alter table wallet_exports add column read_at timestamptz;
drop index wallet_exports_kept;
create index wallet_exports_kept on wallet_exports (read_at) where state = 'done' and forgotten_at is null;
