"""The material of the conflict benchmark is what it is said to be, and both sides compare all of it."""

import numpy as np
import pytest

from benchmarks.conflicts_once import Seconds, Shape, bare, columns, main, make
from bobbin.cluster.conflicts.batch import CLASSES, compare
from bobbin.cluster.conflicts.classify import ConflictClass


@pytest.mark.parametrize("shape", list(Shape))
def test_material_has_its_shape_and_one_in_fifty_repeats_another(shape: Shape) -> None:
    material = make(shape, 130)
    assert material.positions.shape == (130, shape.positions)
    assert (np.diff(material.positions, axis=1) > 0).all()
    assert material.positions.max() < shape.dimension
    found = list(compare(columns(material), None))
    same = {
        (row, column)
        for one in found
        for row, column, number in zip(one.rows.tolist(), one.columns.tolist(), one.classes.tolist(), strict=True)
        if CLASSES[number] is ConflictClass.IDENTICAL
    }
    assert {(49, 50), (99, 100)} <= same
    bare(material, shape)


@pytest.mark.parametrize("shape", list(Shape))
def test_both_sides_are_measured_once_a_round(shape: Shape) -> None:
    rates = main(shape, 60, 2, Seconds.CLOCK, ["bare", "ours"])
    assert {name: len(each) for name, each in rates.items()} == {"bare": 2, "ours": 2}
    assert all(rate > 0 for each in rates.values() for rate in each)
