-- Attestations: every movement of treasury:fees is a leaf of an append-only hash tree (RFC 9162). It is queued in
-- its commit and appended after it, by one node at a time.

-- What a row of the ledger adds to the fees, below zero for what leaves them; null if it moves none.
create function fee_amount(kind text, debit text, credit text, amount bigint, fee bigint)
returns bigint language sql immutable as $$
  select case when kind = 'price' then nullif(fee, 0)
              when credit = 'treasury:fees' then amount
              when debit = 'treasury:fees' then -amount end
$$;
create function fee_kind(kind text) returns text language sql immutable as $$
  select case kind when 'price' then 'fee' else kind end
$$;
create view fee_movements as
  select id, owner, call_id, at, fee_kind(kind) as kind,
         fee_amount(kind, debit, credit, amount_micros, fee_micros) as amount_micros
    from ledger where fee_amount(kind, debit, credit, amount_micros, fee_micros) is not null;

-- Fees that wait to be appended, as many a row as fit a page without a second table. The append deletes its rows
-- in the transaction that makes their leaves, so each fee is appended once. Appends read them by `written`: what
-- older transactions queued is gone, so a long read that keeps dead rows alive slows nothing. A long write does.
create table unattested_fees (
  written xid8 not null default pg_current_xact_id(),
  ledger_ids uuid[] not null,
  call_ids uuid[] not null,
  amounts bigint[] not null,
  kinds text[] not null,
  times timestamptz[] not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
create index unattested_fees_by_transaction on unattested_fees (written);
create function queue_fees() returns trigger language plpgsql as $$
begin
  insert into unattested_fees (ledger_ids, call_ids, amounts, kinds, times)
    select array_agg(id), array_agg(call_id), array_agg(amount), array_agg(fee_kind(kind)), array_agg(at)
      from (select *, fee_amount(kind, debit, credit, amount_micros, fee_micros) as amount,
                   (row_number() over () - 1) / 32 as part from fresh) f
     where amount is not null group by part;
  return null;
end $$;
create trigger ledger_fees_queued after insert on ledger
  referencing new table as fresh for each statement execute function queue_fees();

-- Leaves of one minute and of one append, with consecutive indexes; at most 32, so that a row fits a page.
-- The place in the arrays is the place in the tree. Salts follow from `seed`.
create table attestation_leaf_packs (
  first_index bigint primary key check (first_index >= 0),
  -- The minute of the movements: public rows tell no more of the time.
  minute timestamptz not null,
  lowest_ledger_id uuid not null,
  highest_ledger_id uuid not null,
  seed bytea not null check (octet_length(seed) = 32),
  ledger_ids uuid[] not null check (cardinality(ledger_ids) between 1 and 32),
  call_ids uuid[] not null check (cardinality(call_ids) = cardinality(ledger_ids)),
  amounts bigint[] not null check (cardinality(amounts) = cardinality(ledger_ids)
    and 0 <> all(amounts) and array_position(amounts, null) is null),
  kinds text[] not null check (cardinality(kinds) = cardinality(ledger_ids))
);
-- Receipts look for the leaf of a row of the ledger.
create index attestation_leaf_packs_by_minute on attestation_leaf_packs
  (minute, lowest_ledger_id, highest_ledger_id);

-- What salts the commitment of a leaf: core/attestations/fee-attestations.ts derives the same.
create function fee_leaf_salt(seed bytea, ledger_id uuid) returns text language sql immutable as $$
  select left(encode(sha256(convert_to(encode(seed, 'hex') || ' ' || ledger_id, 'UTF8')), 'hex'), 32)
$$;
-- The text of a leaf, as core/attestations/fee-attestations.ts writes it: the row is salted in it.
create function fee_leaf_text(minute timestamptz, kind text, amount bigint, salt text, ledger_id uuid, call_id uuid)
returns text language sql stable as $$
  select 'gas-fee-v1 ' || to_char(minute at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"') || ' ' || kind || ' ' || amount
    || ' ' || encode(sha256(convert_to(
      salt || ' ' || ledger_id || ' ' || coalesce(call_id::text, '-'), 'UTF8')), 'hex')
$$;

-- A row a leaf. A reader of a range bounds `first_index` too, which the primary key serves.
create view attestation_leaves as
  select p.first_index, p.first_index + f.place - 1 as leaf_index, f.ledger_id, f.call_id, f.amount_micros, f.kind,
         p.minute, p.lowest_ledger_id, p.highest_ledger_id, p.seed, x.salt, x.text, sha256('\x00' || convert_to(x.text, 'UTF8')) as hash
    from attestation_leaf_packs p,
         unnest(p.ledger_ids, p.call_ids, p.amounts, p.kinds) with ordinality
           f(ledger_id, call_id, amount_micros, kind, place),
         lateral (select fee_leaf_salt(p.seed, f.ledger_id) as salt) s,
         lateral (select s.salt, fee_leaf_text(p.minute, f.kind, f.amount_micros, s.salt, f.ledger_id, f.call_id) as text) x;

-- Finds the fees of a call. Ids of calls sort by time, as the ledger nearly does: a summary of pages costs a commit
-- nothing. Several ranges a page: a fee of an old call does not widen it.
create index ledger_by_call on ledger using brin (call_id uuid_minmax_multi_ops)
  with (pages_per_range = 16, autosummarize = on);

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

create trigger attestation_leaf_packs_append_only before update or delete on attestation_leaf_packs
  for each row execute function refuse_change();
create trigger attestation_leaf_packs_no_truncate before truncate on attestation_leaf_packs
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

-- The tree's right edge (core/attestations/merkle-tree.ts). `origin` names the tree; it is that of the first head and
-- stays. Transactions before `oldest` have no fees in the queue; it counts for the transaction ids of `cluster`,
-- not for those of a restored database. Whoever appends locks the row.
create table attestation_cursor (
  one boolean primary key default true check (one),
  tree_size bigint not null default 0,
  peaks bytea not null default '',
  origin text,
  oldest xid8 not null default '3',
  cluster text not null default ''
);
insert into attestation_cursor default values;

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
