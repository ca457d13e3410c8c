"""The team store: one PostgreSQL that any number of servers and workers share."""
