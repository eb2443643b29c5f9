"""The benchmark of a replicated lace, as far as it goes without processes: what the rates come to."""

from pathlib import Path

from benchmarks import replicated_lace, replicated_lace_once
from bobbin.lace import Lace
from tests.conformance.samples import sealed


def test_the_ratio_is_within_a_round_and_has_the_bar_of_the_issue() -> None:
    rates = {"single": [10_000.0, 20_000.0, 30_000.0], "replicated": [6_000.0, 11_000.0, 12_000.0]}
    found = replicated_lace.result(rates, 50_000)
    assert [row.value for row in found.rows] == [20_000, 11_000]
    (ratio,) = found.ratios
    assert (ratio.value, ratio.bar, ratio.comparison) == (0.55, 0.5, ">=")


def test_an_import_is_counted_when_all_of_it_is_stored(tmp_path: Path) -> None:
    Lace.create(tmp_path / "lace").close()
    bundle = tmp_path / "some.bundle"
    bundle.write_bytes(b"".join(sealed(number).raw for number in range(5)))
    assert replicated_lace_once.main(tmp_path / "lace", bundle, 0)["records_per_second"] > 0
