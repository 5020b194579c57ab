-- Addresses that get no more e-mail, in lower case: `bounced`, a mail server has said that there is no
-- such mailbox, which counts for a while and for letters of callers; `asked`, its owner wants no more,
-- which is for good and for alerts too, and is written by the operator.
create table mail_suppressions (
  address text primary key check (address = lower(address)),
  reason text not null check (reason in ('bounced', 'asked')),
  -- What the mail server answered.
  smtp_status int,
  at timestamptz not null default now()
);
create index mail_suppressions_bounced on mail_suppressions (at) where reason = 'bounced';
