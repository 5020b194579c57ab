-- Whose secret it is: a Backpack of somebody else holds none, whatever its id.
alter table keyring add column agent_id text;
update keyring k set agent_id = a.aggregate_id
  from actors a where a.kind = 'backpack' and a.id = k.backpack_id;
