"""A record is bytes (Lace-006, 009, 010, 110)."""
