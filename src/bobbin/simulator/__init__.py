"""A seeded world in which everything that can fail does."""
