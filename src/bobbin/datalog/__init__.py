"""The rule language: text to plan (Lace-030)."""
