"""The inputs of a job: what a source is, how it is cut into parts, and how a worker reads one part."""
