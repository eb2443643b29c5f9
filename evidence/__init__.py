"""The full counts behind what Bobbin claims; one module a question, each with ``run(out: Path) -> dict``.

``out`` is the folder of the reports; a module may leave further files there, named after itself. `make evidence` runs
all but those that set ``ONLY_BY_NAME``, which take too long, and renews ``docs/evidence.md``.
"""
