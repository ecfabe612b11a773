"""Evaluation: benchmarks on which a model and its dense twin are compared."""
