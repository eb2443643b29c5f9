"""A lake: tables of records and of what was made from them, in Parquet files that a manifest names."""
