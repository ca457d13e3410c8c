"""Answers from evidence: the loop, its steps, and the agents and conversations around it."""
