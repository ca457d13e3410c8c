"""Embedders, rerankers and chat models. Each is imported when it is made: a search without them pays for none."""
