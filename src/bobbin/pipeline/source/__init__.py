"""Laces, bundles and lakes as a data source of Spark: ``spark.read.format("bobbin").load(path)``, and as a stream."""
