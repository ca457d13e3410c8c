"""The search pipeline and its steps: pure functions over arrays and values; no clock, no model, no file."""
