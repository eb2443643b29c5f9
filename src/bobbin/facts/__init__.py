"""What the records say (Lace-020)."""
