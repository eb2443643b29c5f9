"""What is said about records: every refusal in words, every line of JSON, and how bundles are taken apart."""

from typing import TYPE_CHECKING

from bobbin.records import jsonl
from bobbin.records.bundle import Damage, Piece
from bobbin.records.diagnose import diagnose
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import build_blob, validate
from tests.unit.records.bundles import AFTER, BEFORE, LAST, PLANTED_SEAL, make_plex, make_seal, read
from tests.unit.records.faults import FAULTS, UNFINISHED, broken
from tests.unit.records.refusals import CASES
from tests.vectors.load import load, load_record

if TYPE_CHECKING:
    from tests.conftest import Golden


def test_refusals(golden: "Golden") -> None:
    cases = [(str(fault), broken(fault)) for fault in [*FAULTS, UNFINISHED]] + [(name, raw) for name, raw, _ in CASES]
    lines = []
    for name, raw in cases:
        failure = diagnose(raw)
        assert failure is not None
        detail = failure.detail if len(failure.detail) < 200 else failure.detail[:200] + "…"
        lines.append(f"{name}\n    {failure.reason} at {failure.offset}: {detail}\n")
    golden("records/refusals.txt", "".join(lines))


def test_lines(golden: "Golden") -> None:
    records = [validate(load_record(case["file"])) for case in load("records.json")["records"]]
    records.append(build_blob(bytes(range(8))))
    golden("records/vectors.jsonl", b"".join(jsonl.encode(record) + b"\n" for record in records))


OUTER = make_seal("outer", b"some data, then " + PLANTED_SEAL)
HEADERS = OUTER.index(b"\n\n") + 2

SCENES = {
    "three good Seals": BEFORE + AFTER + LAST,
    "a changed byte of data": BEFORE + OUTER[:-1] + b"?" + AFTER + LAST,
    "a changed mark": BEFORE + b"?" + OUTER[1:] + AFTER + LAST,
    "a changed header name": BEFORE + OUTER.replace(b"Signed-By", b"Signed-Bx") + AFTER + LAST,
    "a changed digit of the length": BEFORE + OUTER.replace(b"h: 416", b"h: 417") + AFTER + LAST,
    "a length that is gone": BEFORE + OUTER.replace(b"Data-Length: 416", b"Data-Length: ?!?") + AFTER + LAST,
    "a lost line feed after the length": BEFORE + OUTER[: HEADERS - 1] + OUTER[HEADERS:] + AFTER + LAST,
    "cut inside the headers": BEFORE + OUTER[:200] + AFTER + LAST,
    "cut inside the data": BEFORE + OUTER[: HEADERS + 8] + AFTER + LAST,
    "a byte lost from the data": BEFORE + OUTER[:HEADERS] + OUTER[HEADERS + 1 :] + AFTER + LAST,
    "a byte added to the data": BEFORE + OUTER[:HEADERS] + b"?" + OUTER[HEADERS:] + AFTER + LAST,
    "junk between records": BEFORE + b"\n-- \n" + AFTER + b"\x00" * 9 + LAST,
    "junk before a Plex": BEFORE + b"\n" + make_plex("plex", b"data") + AFTER,
    "two damaged Seals side by side": BEFORE + OUTER[:-1] + b"?" + b"?" + AFTER[1:] + LAST,
    "the input ends inside the data": BEFORE + OUTER[:-40],
    "the input ends inside the headers": BEFORE + OUTER[:100],
    "no bundle at all": b"GIF89a, or whatever",
}


def describe(piece: Piece) -> str:
    if isinstance(piece, Damage):
        return f"damage  {piece.reason}: {piece.detail}"
    try:
        record = validate(piece.raw)
    except InvalidRecord as failure:
        return f"extent  {failure}"
    return f"extent  {record.hash}"


def test_bundles(golden: "Golden") -> None:
    lines = []
    for name, raw in SCENES.items():
        lines.append(f"{name}\n")
        lines += [f"{piece.offset:>6} {len(piece.raw):>5}  {describe(piece)}\n" for piece in read(raw)]
    golden("records/bundles.txt", "".join(lines))
