"""What `benchmarks/` and `evidence/` have in common: the form of a result, the machine it came from, and its page."""
