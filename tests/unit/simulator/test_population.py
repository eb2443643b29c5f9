"""Records of every kind, the same for the same seed."""

from random import Random

from bobbin.records.record import validate
from bobbin.simulator.population import CLUSTER, LEFT, MEMBER, populate


def test_a_population_has_every_kind_of_record() -> None:
    records = populate(Random(1), 60).records
    assert {record.hash[0] for record in records} == {"B", "P", "S"}
    assert len({record.hash for record in records}) == 60
    assert all(validate(record.raw) == record for record in records)
    text = b"".join(record.raw for record in records).decode(errors="replace")
    for said in (f"App: {MEMBER}", f"App: {LEFT}", "Chunk+Link: ", "X-Private: yes", "Release-TAI: ", "X-Level: a"):
        assert said in text, said


def test_a_population_is_its_seed() -> None:
    assert populate(Random(5), 10).records == populate(Random(5), 10).records
    assert populate(Random(5), 10).verifiers == populate(Random(5), 10).verifiers


def test_clustered_digests_begin_alike() -> None:
    records = populate(Random(2), 12, is_clustered=True).records
    assert {record.hash[2] for record in records} <= CLUSTER
