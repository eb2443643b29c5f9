"""What was computed beforehand is looked at before it is believed."""

from bobbin.interlace.advertise import Renderer
from bobbin.interlace.built import SAMPLE, Built
from bobbin.interlace.messages import Partition
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import label_origin

SOURCE = label_origin("lab")
TOLD = [(f"P.{number:043}.H3", (ClaimedField("Name", "0", f"n/{number}"),)) for number in range(3 * SAMPLE)]
TRUE = {record: Renderer(SOURCE).digest(record, fields) for record, fields in TOLD}


def test_a_sample_of_the_digests_is_computed_anew() -> None:
    assert Built(said="x", digests=TRUE).is_true(TOLD, SOURCE)
    assert not Built(said="x", digests=TRUE).is_true(TOLD, label_origin("other"))
    assert not Built(said="x", digests=dict.fromkeys(TRUE, b"\0" * 32)).is_true(TOLD, SOURCE)


def test_what_is_not_known_is_not_looked_at() -> None:
    assert Built(said="x").is_true(TOLD, SOURCE)
    record, fields = TOLD[0]
    assert Built(said="x", digests={record: TRUE[record]}).is_true([*TOLD[1:], (record, fields)], SOURCE)


def test_a_partition_is_that_of_the_same_records_and_of_no_others() -> None:
    records = [record for record, _ in TOLD[:3]]
    built = Built(said="x", digests={record: TRUE[record] for record in records})
    whole = Partition(prefix="00", count=3, root=b"r")
    assert built.has_all(whole, records)
    assert not built.has_all(whole, records[:2])
    assert not built.has_all(whole, [*records[:2], TOLD[3][0]]), "as many, but others"
