-- Which of its owner's fleets a fleet is, from 1: two that are created at once cannot both be the last
-- one that the limit allows.
alter table fleets add column place int;
update fleets f set place = nth.place
  from (select fleet_id, row_number() over (partition by owner_id order by fleet_id) as place from fleets) nth
 where nth.fleet_id = f.fleet_id;
create unique index fleets_by_place on fleets (owner_id, place);
