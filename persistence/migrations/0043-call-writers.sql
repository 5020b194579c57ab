-- The transaction that wrote a call, for the walks of statements: rows of calls are changed later, when
-- their answers are forgotten, and xmin with them. Null on calls of before: every walk sees those.
alter table calls add column written xid8;
alter table calls alter column written set default pg_current_xact_id();
