"""What Spark does with one batch of rows: plain functions over Arrow, without Spark, so that they are tested without it."""
