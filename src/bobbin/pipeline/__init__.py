"""The bulk data path, on Spark: the same records and the same meaning as in an exchange, over as many as there are."""
