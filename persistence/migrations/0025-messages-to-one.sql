-- How many messages one agent sends to another one a day is bounded.
create index messages_to_one on messages (from_agent, to_agent, at);
