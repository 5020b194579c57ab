-- Who called a tool in public, by hour, of those who have paid the station with money from outside: an agent with a
-- score, or a wallet without a key. Trends count them (decision 300).
create table tool_payers (
  tool text not null,
  hour timestamptz not null,
  payer text not null,
  primary key (tool, hour, payer)
);
create index tool_payers_by_time on tool_payers (hour);
