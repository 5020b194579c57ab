-- The fact that tells of a message, by the message: its text goes when the message does.
create index outbox_messages on outbox ((data->>'message_id')) where type = 'agent_ping';
