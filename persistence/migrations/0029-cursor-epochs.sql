-- Which ids of signals and events were cursors of this history (persistence/realtime/cursor-epochs.ts). A database
-- that is restored, copied or promoted goes on with ids that no other history has given out.

create table cursor_epochs (
  stream text not null,
  first_id bigint not null,
  -- Null while ids are added to it.
  last_id bigint,
  -- Cluster, timeline and table; and when the server was started.
  lineage text not null,
  server_started timestamptz not null,
  primary key (stream, first_id)
);
