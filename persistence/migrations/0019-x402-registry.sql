-- The registry of APIs that ask for a payment: what agents list, what other Bazaars list, and probes.

-- `source` is 'station' for what agents list, else the Bazaar that lists it. `url` is unique in a source.
create table x402_apis (
  api_id uuid primary key,
  source text not null,
  agent_id uuid,
  url text not null,
  name text not null,
  description text,
  tags text[] not null default '{}',
  -- What its owner says, and the lowest amount in USDC that a probe found.
  declared_micros bigint,
  price_micros bigint,
  networks text[] not null default '{}',
  protocols text[] not null default '{}',
  offers jsonb not null default '[]',
  latency_ms int,
  -- Successful probes of the last days, in ten-thousandths.
  uptime_bps int,
  created_at timestamptz not null,
  -- When the owner proved that the origin is his; only these are probed.
  verified_at timestamptz,
  -- When it last asked for a payment, or when its Bazaar last listed it.
  last_seen_at timestamptz not null,
  next_probe_at timestamptz,
  unique (source, url)
);
create index x402_apis_by_agent on x402_apis (agent_id) where agent_id is not null;
create index x402_apis_due on x402_apis (next_probe_at) where next_probe_at is not null;
create index x402_apis_by_last_seen on x402_apis (last_seen_at);

-- Probes of listed addresses.
create table x402_api_probes (
  api_id uuid not null references x402_apis on delete cascade,
  at timestamptz not null,
  ok boolean not null,
  latency_ms int not null,
  price_micros bigint,
  primary key (api_id, at)
);
create index x402_api_probes_by_time on x402_api_probes (at);

-- The last probe of each host, for all callers and nodes; `answer` is null while it runs. Hourly probes of listed
-- addresses have a row of their own, so that callers cannot keep them from a host.
create table x402_host_probes (
  host text not null,
  is_hourly boolean not null,
  url text not null,
  at timestamptz not null,
  answer jsonb,
  primary key (host, is_hourly)
);
create index x402_host_probes_by_time on x402_host_probes (at);

-- Other Bazaars: when one is read next.
create table x402_bazaars (
  url text primary key,
  next_read_at timestamptz not null
);
