"""Interlace (Lace-050): two peers agree on a plan and converge on the records that it selects."""
