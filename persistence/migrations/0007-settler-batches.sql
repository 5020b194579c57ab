-- One transaction of a settler may settle several payments: what it is for moves out of its row.

-- What a nonce of a settler carries. Each attempt of a purpose has one nonce, whichever key signs it.
create table settler_carries (
  chain text not null,
  -- A settlement, a sweep.
  purpose text not null,
  attempt int not null,
  settler text not null,
  nonce bigint not null,
  primary key (chain, purpose, attempt)
);
create index settler_carries_by_nonce on settler_carries (chain, settler, nonce);

insert into settler_carries
select chain, purpose, attempt, settler, nonce from settler_txs where replaced_by is null;

-- Their indexes go with them. A node of an older version cannot sign any more: its settlements wait.
alter table settler_txs drop column purpose, drop column attempt;
-- All that were ever signed for a nonce, those replaced too: any of them may be mined.
create index settler_txs_by_nonce on settler_txs (chain, settler, nonce);
