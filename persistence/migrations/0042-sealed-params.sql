-- What a schedule asks its tool, sealed, where it holds credentials; `params` then shows it without them.
alter table schedule_params add column sealed bytea;
select guard_sealed('schedule_params', 'sealed');
