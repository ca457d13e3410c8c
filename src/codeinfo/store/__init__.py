"""Stores: where an index lives. SQLite is the source of truth; vectors are files beside it, listed by its
transactions."""
