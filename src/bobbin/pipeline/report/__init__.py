"""A report about a lake: figures that Spark aggregates, and a page without any script that shows them."""
