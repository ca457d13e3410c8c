"""Measuring search: datasets, figures, comparisons, and benchmarks made of a repository's own history."""
