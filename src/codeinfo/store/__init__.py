"""Stores: where an index lives. SQLite is the source of truth; vectors lie beside it, listed by its transactions."""
