"""The jobs of the pipeline, one a file."""
