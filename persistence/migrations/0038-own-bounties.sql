-- The bounties of one agent: those it posted, and those it was paid for.
create index bounties_by_poster on bounties (poster_id, bounty_id);
create index bounties_by_claimer on bounties (claimed_by, bounty_id) where claimed_by is not null;
