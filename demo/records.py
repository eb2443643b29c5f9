"""The first part: laces, keys, records, files, damage."""

import json
import subprocess
import sys
from collections.abc import Iterator

from bobbin.records import canonical
from bobbin.records.bundle import BundleReader
from bobbin.records.record import Seal, build_plex, seal, validate
from bobbin.records.signing import SigningKey
from demo.tour import Tour, quote

RECORDS = 200


def make_laces(tour: Tour) -> None:
    """Two laces and a key."""
    tour.step(
        "Two laces",
        "A lab and a hospital. Each has a lace of its own: a folder with a store of records and the keys that sign "
        "them. The lab makes a key; what it prints is the public half, the name of the signer.",
    )
    for lace in ("lab.lace", "hospital.lace"):
        tour.run(f"bobbin init {lace}")
    key = tour.run("bobbin key new lab.lace")
    mode = (tour.folder / "lab.lace" / "keys" / "main.key").stat().st_mode & 0o777
    tour.claim("the key file is readable by its owner only (0600)", mode == 0o600)
    secret = (tour.folder / "lab.lace" / "keys" / "main.key").read_text().strip()
    tour.claim("the secret itself was not printed", secret not in key.out + key.err)


def write_records(tour: Tour) -> None:
    """Records, signed and not."""
    tour.step(
        "Writing and signing",
        "A record has a place (group, app, name), a time and data. Its name is the hash of its bytes, so the same "
        "record has the same name everywhere. This one is a test vector of the protocol:",
    )
    put = "bobbin put lab.lace --group u --app ding --name links/1"
    plex = tour.run(f"printf hello | {put} --tai 1640995200:000000000 -", stdin="hello")
    tour.claim(
        "it has the name that the protocol says", plex.out.strip().startswith("P.tyYEj0zIBrq7IDVBPzaErPIq5p03Ohp")
    )
    tour.say("With --sign it becomes a Seal: the lab's signature over the record, which is inside it whole.")
    put = "bobbin put lab.lace -g ward/3 -a results -N patient/17/crp"
    first = tour.run(f"echo 'CRP 41 mg/L' | {put} --sign -", stdin="CRP 41 mg/L\n").out.strip()
    link = f"-H '+Link: corrects {first}'"
    tour.run(f"echo 'CRP 4.1 mg/L' | {put} {link} --sign -", stdin="CRP 4.1 mg/L\n")
    tour.say(f"And {RECORDS} more signed results, written by a program with the Python interface:")
    print()
    program = (
        'with bobbin.Lace.open("lab.lace") as lace:\n'
        f"    for n in range({RECORDS}):\n"
        '        data = b"result %d\\n" % n\n'
        '        lace.put(data, group="ward/4", app="results", name=f"patient/{n}/na", sign=True)\n'
    )
    quote(program.splitlines())
    subprocess.run([sys.executable, "-c", f"import bobbin\n{program}"], cwd=tour.folder, check=True)
    stat = json.loads(tour.quietly("stat", "lab.lace", "--json").out)
    tour.claim(
        f"the lab has {RECORDS + 3} records, {RECORDS + 2} of them signed",
        stat["kinds"] == {"blob": 0, "plex": 1, "seal": RECORDS + 2},
    )


def look(tour: Tour) -> None:
    """Ways to read."""
    tour.step(
        "Looking",
        "A coordinate may hold many records; its newest is the tip. Nothing is ever overwritten: the first value and "
        "its correction are both there.",
    )
    listed = tour.run("bobbin list lab.lace //ward/3//")
    tour.claim("both values are listed", len(listed.out.splitlines()) == 2)
    got = tour.run("bobbin get lab.lace //ward/3//results//patient/17/crp")
    tour.claim("the tip is the correction", got.out == "CRP 4.1 mg/L\n")
    shown = tour.run("bobbin show lab.lace //ward/3//results//patient/17/crp")
    tour.claim("its signature is valid", "signature  valid" in shown.out)
    tour.say("What records say is also there as facts, for the rules that will decide who may have what:")
    facts = tour.run("bobbin facts lab.lace RecordLink")
    tour.claim("the correction links to what it corrects", facts.out.count("'corrects'") == 1)


def move_records(tour: Tour) -> None:
    """A file that anyone can check."""
    tour.step(
        "Out of the lab",
        "An export is a file of records, one after the other. Anyone can check it, without a lace and without asking "
        "the lab.",
    )
    tour.run("bobbin export lab.lace results.bundle --at //ward/4//")
    verified = tour.run("bobbin verify results.bundle")
    tour.claim("every record of the file is valid", verified.code == 0)


def damage_records(tour: Tour) -> str:
    """Make ``damaged.bundle``; returns the name of the planted record."""
    tour.step(
        "Damage on the way",
        "Now the file is tampered with: a value is changed, a patient is changed, a signature is replaced by "
        "another one (with all digests made to fit), and the file ends in the middle of its last record. A fifth "
        "record is a trap: it carries another, perfectly valid one in its data, in the hope that whoever skips the "
        "damaged outer record takes the inner one for a member of the file.",
    )
    records = list(split((tour.folder / "results.bundle").read_bytes()))
    stranger = SigningKey.from_secret(bytes(31) + b"\x01")
    forged = build_plex(group="ward/4", app="results", name="patient/1/forged", tai_ns=1, data=b"all is well\n")
    planted = seal(forged, stranger, auxiliary=b"\x02" * 32)
    carrier = build_plex(group="ward/4", app="results", name="carrier", tai_ns=2, data=b"x\n" + planted.raw)
    trap = bytearray(seal(carrier, stranger, auxiliary=b"\x03" * 32).raw)
    trap[trap.index(b"Data-Length: ") + 1] = ord("A")

    records[20] = records[20].replace(b"result ", b"RESULT ")
    records[60] = records[60].replace(b"Name: patient/", b"Name: patiens/")
    signed, other = validate(records[100]), validate(records[101])
    assert isinstance(signed, Seal)
    assert isinstance(other, Seal)
    records[100] = canonical.seal_record(signed.verifier, other.signature, signed.inner().raw)
    records.insert(140, bytes(trap))
    records[-1] = records[-1][:-4]
    (tour.folder / "damaged.bundle").write_bytes(b"".join(records))
    verified = tour.run("bobbin verify damaged.bundle")
    tour.claim(
        "each of the five is found, and the exit code says so (1)",
        verified.code == 1 and verified.out.count("rejected") == 5,
    )
    return planted.hash


def take_in(tour: Tour, planted: str) -> None:
    """What becomes of the damaged file."""
    good = RECORDS - 4
    tour.step(
        "Into the hospital",
        "The hospital imports the damaged file. What is valid is stored; the rest is set aside, with the reason.",
    )
    imported = tour.run("bobbin import hospital.lace damaged.bundle")
    tour.claim(
        f"{good} stored, 5 rejected, and the exit code says that it was not all (1)",
        imported.code == 1 and f"{good} stored" in imported.out and "5 rejected" in imported.out,
    )
    rows = tour.quietly("quarantine", "list", "hospital.lace", "--json").rows
    tour.run("bobbin quarantine list hospital.lace")
    tour.claim(
        "the quarantine has the five, each with its reason",
        [row["reason"] for row in rows]
        == ["blob-digest", "plex-digest", "invalid-signature", "data-length", "truncated"],
    )
    tour.run(f"bobbin quarantine show hospital.lace {rows[0]['id']}", lines_max=24)
    tour.say("And the record that was planted inside another?")
    tour.run(f"bobbin get hospital.lace {planted}")
    have = {row["values"][0] for row in tour.quietly("facts", "hospital.lace", "Have", "--json").rows}
    tour.claim("the planted record was not let in", planted not in have and len(have) == good)
    tour.say("The lab sends the undamaged file after all. Importing is safe to repeat: only what is missing is stored.")
    again = tour.run("bobbin import hospital.lace results.bundle --json").rows[-1]
    tour.claim(f"4 stored, {good} were there already", again["stored"] == 4 and again["duplicate"] == good)


def refuse(tour: Tour) -> None:
    """What is removed stays removed."""
    tour.step(
        "Removing for good",
        "The hospital removes a record, and it stays removed: no later import brings it back until the refusal is "
        "lifted.",
    )
    name = tour.quietly("list", "hospital.lace", "//ward/4//", "--limit", "1", "--json").rows[0]["hash"]
    tour.run(f"bobbin remove hospital.lace {name} --reason 'wrong patient'")
    refused = tour.run("bobbin import hospital.lace results.bundle")
    tour.claim(
        "the import names it as refused", refused.code == 1 and name in refused.out and "1 refused" in refused.out
    )
    tour.run("bobbin refusals hospital.lace")


def split(bundle: bytes) -> Iterator[bytes]:
    """The records of an undamaged bundle."""
    reader = BundleReader()
    for piece in (*reader.feed(bundle), *reader.finish()):
        yield piece.raw
