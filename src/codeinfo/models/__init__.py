"""Embedders, rerankers and chat models. Each is imported on creation: a search without them pays for none."""
