"""The rule language on Spark: one plan of the algebra, four ways to execute it, one answer."""
