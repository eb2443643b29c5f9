"""The full counts behind what Bobbin claims; one module a question, each with ``run(out: Path) -> dict``.

``out`` is the folder of the reports; a module may leave further files there, named after itself. `make evidence` runs
them all and renews ``docs/evidence.md``.
"""
