"""Thin shells over the engine; each derives its arguments from the table in `operations`."""
