"""One shard: what its log is applied to, and what its leader does."""
