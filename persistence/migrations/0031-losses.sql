-- What was lost in the last 24 hours counts against the exposure (decision 473): it is read before each call that may
-- run before its payment.
create index ledger_losses on ledger (at) where kind = 'loss';
