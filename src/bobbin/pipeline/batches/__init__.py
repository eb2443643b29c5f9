"""What Spark does with one batch of rows: plain functions over Arrow, which are tested without Spark."""
