"""Figures as JSON, and back."""

import json

import msgspec

from bobbin.pipeline.report.figures import FORMAT, VERSION, Figures, builtins
from tests.unit.pipeline.report.made_figures import figures


def test_figures_survive_json() -> None:
    made = figures()
    plain = builtins(made)
    assert (plain["format"], plain["version"]) == (FORMAT, VERSION)
    assert msgspec.convert(json.loads(json.dumps(plain)), Figures) == made
