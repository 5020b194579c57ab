-- What an onboarding under an Idempotency-Key is going to make, drawn and sealed before it begins: a
-- repetition makes the same agent, and after a crash it still gets that agent's key.
create table drafts (
  owner text not null,
  idempotency_key text not null,
  request_hash text not null,
  sealed bytea not null,
  at timestamptz not null default now(),
  primary key (owner, idempotency_key)
);
create index drafts_by_time on drafts (at);

-- Addresses are forgotten some days after their last free call.
create index aggregates_visitors on aggregates (id) where kind = 'visitor';

select guard_sealed('drafts', 'sealed');
