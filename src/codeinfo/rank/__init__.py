"""Ranking: pure functions over arrays and values; no store, no clock, no model."""
