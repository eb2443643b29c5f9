"""How fast Bobbin is, as ratios against a named peer in the same run; one module a question, each with ``run()``.

`make bench` runs them all, `make bench-<name>` one. ``compare`` sets two runs side by side.
"""
