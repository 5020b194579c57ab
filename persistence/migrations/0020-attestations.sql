-- Attestations: every movement of treasury:fees is a leaf of an append-only hash tree (RFC 9162), appended
-- after its commit by one node at a time.

-- The movements that are leaves, one a row of the ledger. What leaves the fees is below zero.
create view fee_movements as
  select id, owner, call_id, at, xmin as written,
         case kind when 'price' then 'fee' else kind end as kind,
         case when kind = 'price' then fee_micros when credit = 'treasury:fees' then amount_micros
              else -amount_micros end as amount_micros
    from ledger
   where case kind when 'price' then fee_micros > 0
              else debit = 'treasury:fees' or credit = 'treasury:fees' end;

-- The hash is that of the text which fee_leaf_text returns.
create table attestation_leaves (
  leaf_index bigint primary key check (leaf_index >= 0),
  ledger_id uuid not null unique,
  call_id uuid,
  amount_micros bigint not null check (amount_micros <> 0),
  kind text not null,
  -- The minute of the movement: public rows tell no more of the time.
  minute timestamptz not null,
  salt bytea not null check (octet_length(salt) = 16),
  hash bytea not null check (octet_length(hash) = 32)
);
-- Ids of calls sort by time, as leaves nearly do: a summary of pages is enough for receipts, and costs an append
-- nothing.
create index attestation_leaves_by_call on attestation_leaves
  using brin (call_id) with (pages_per_range = 16, autosummarize = on);

-- The text of a leaf, as core/attestations/fee-attestations.ts writes it: the row is salted in it.
create function fee_leaf_text(minute timestamptz, kind text, amount bigint, salt bytea, ledger_id uuid, call_id uuid)
returns text language sql stable as $$
  select 'gas-fee-v1 ' || to_char(minute at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"') || ' ' || kind || ' ' || amount
    || ' ' || encode(sha256(convert_to(
      encode(salt, 'hex') || ' ' || ledger_id || ' ' || coalesce(call_id::text, '-'), 'UTF8')), 'hex')
$$;

-- Hashes of complete subtrees of 256, 256^2, … leaves (level 8, 16, …).
create table attestation_subtrees (
  level int check (level > 0),
  subtree_index bigint check (subtree_index >= 0),
  hash bytea not null check (octet_length(hash) = 32),
  primary key (level, subtree_index)
);

-- The signed heads. `note` is the signed text. Retention keeps the last one of each UTC day for good; the root of
-- any other size follows from the leaves.
create table attestation_heads (
  tree_size bigint primary key check (tree_size > 0),
  root bytea not null check (octet_length(root) = 32),
  signed_at timestamptz not null,
  note text not null
);

create trigger attestation_leaves_append_only before update or delete on attestation_leaves
  for each row execute function refuse_change();
create trigger attestation_leaves_no_truncate before truncate on attestation_leaves
  for each statement execute function refuse_change();
create trigger attestation_heads_append_only before update on attestation_heads
  for each row execute function refuse_change();
create function keep_last_head_of_day() returns trigger language plpgsql as $$
begin
  if old.signed_at > now() - interval '7 days' or not exists (
      select from attestation_heads h where h.tree_size > old.tree_size
         and (h.signed_at at time zone 'UTC')::date = (old.signed_at at time zone 'UTC')::date) then
    raise exception 'the heads of a week and the last head of a day are kept';
  end if;
  return old;
end $$;
create trigger attestation_heads_kept before delete on attestation_heads
  for each row execute function keep_last_head_of_day();
create index attestation_heads_by_time on attestation_heads (signed_at);
create trigger attestation_heads_no_truncate before truncate on attestation_heads
  for each statement execute function refuse_change();

-- Sums of the leaves by kind.
create table attestation_totals (
  kind text primary key,
  leaves bigint not null,
  amount_micros bigint not null
);

-- The tree's right edge (core/attestations/merkle-tree.ts), and what it includes: rows visible in `snapshot`.
-- `until` bounds the search for newer rows, `cluster` tells a restored database. `origin` names the tree; it is
-- that of the first head and stays. `complete` is false while rows wait that the snapshot sees.
-- Between two searches for all rows that the snapshot could not see, at `searched_at`, only the last seconds are
-- read; then `searched_size` is behind `tree_size`. Whoever appends locks the row.
create table attestation_cursor (
  one boolean primary key default true check (one),
  tree_size bigint not null,
  peaks bytea not null,
  snapshot pg_snapshot not null,
  until timestamptz not null,
  cluster text not null,
  complete boolean not null,
  origin text,
  searched_at timestamptz not null default '-infinity',
  searched_size bigint not null default 0
);
insert into attestation_cursor (tree_size, peaks, snapshot, until, cluster, complete)
  values (0, '', '3:3:', '-infinity', '', false);

-- Keys that sign heads and receipts. The newest and the one before it sign, unless they are retired.
create table attestation_keys (
  number int primary key check (number > 0),
  public_key bytea not null check (octet_length(public_key) = 32),
  sealed bytea not null,
  created_at timestamptz not null default now(),
  retired_at timestamptz
);
select guard_sealed('attestation_keys', 'sealed');

-- Heads that were published and are not heads of this tree: the database was restored from an older backup.
create table attestation_rewinds (
  tree_size bigint not null,
  root bytea not null,
  note text not null,
  -- The size of the tree when it was found.
  found_size bigint not null,
  found_at timestamptz not null default now(),
  accepted_at timestamptz,
  primary key (tree_size, root)
);

-- SHA-256 of the body of the answer, written when the stored answer of a tool call is deleted.
alter table calls add column answer_hash bytea;
