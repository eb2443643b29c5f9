"""The last part: the same records in bulk, on Spark, with the same outcome."""

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from bobbin.store.lake.lake import Lake
from demo.tour import Tour

PAGE = "report.html"


def in_bulk(tour: Tour, kept: Path) -> None:
    """Lakes, the plan of the exchange over a whole lake, and a report that stays in ``kept``."""
    tour.step(
        "In bulk",
        "An exchange is for what two parties say to each other. What is too much to do one record at a time is done on "
        "Spark: a lake is a folder of tables, and the jobs that fill and read it use the same code as everything "
        "before. Here Spark runs inside this machine; with --master it is a cluster.",
    )
    for name in ("station", "clinic"):
        taken = tour.run(f"bobbin pipeline ingest {name}.lake {name}.lace")
        count = tour.quietly("stat", f"{name}.lace", "--json").rows[0]["records"]
        tour.claim(
            f"all {count:,} records of the {name} were checked again and are in its lake",
            taken.code == 0 and Lake.open(tour.folder / f"{name}.lake").manifest("records").rows == count,
        )
    keys = {name: tour.quietly("key", "show", f"{name}.lace").out.strip() for name in ("station", "clinic")}
    tour.say("Which records may the station send to the clinic, by the plan that both had agreed on over the link?")
    tour.run(
        "bobbin pipeline select station.lake --policy station.policy --peer-policy clinic.policy "
        f"--here {keys['station']} --peer {keys['clinic']}",
        lines_max=12,
    )
    received = {row["hash"] for row in tour.quietly("list", "clinic.lace", "//ward/5//", "--json").rows}
    selected = _selected(tour.folder / "station.lake", "MaySend")
    tour.claim(
        f"Spark selects the {len(received):,} records that the exchange has brought, and no other",
        bool(received) and selected == received,
    )
    tour.say("And how do the two lakes differ? The draft, which no policy let go, is all that only the station has:")
    compared = tour.run("bobbin pipeline reconcile station.lake clinic.lake")
    (draft,) = (row["hash"] for row in tour.quietly("list", "station.lace", "//ward/5//drafts//", "--json").rows)
    tour.claim(
        "everything else is the same on both sides",
        compared.code == 1
        and f"{len(received):,} in common" in compared.out
        and [line.split()[-1] for line in compared.out.splitlines() if line.startswith("only")] == [draft],
    )
    kept.mkdir(parents=True, exist_ok=True)
    page = kept / PAGE
    tour.say("What is in the lake, where it came from and what was done with it, as one page:")
    tour.run(f"bobbin pipeline report station.lake --html '{page}'")
    text = page.read_text("utf-8") if page.exists() else ""
    tour.claim(
        "the report is one file without script or any address in it",
        "Volume over time" in text and "<script" not in text and "://" not in text,
    )
    tour.say("It stays, for a browser:")
    tour.show_output([str(page)])


def _selected(folder: Path, predicate: str) -> set[str]:
    """The records that a selection holds, read without Spark."""
    lake = Lake.open(folder)
    found: set[str] = set()
    for name in lake.tables():
        if name.startswith("selections/"):
            for file in lake.manifest(name).files:
                with lake.files.open(file.path) as stream:
                    rows = pq.read_table(stream)
                found.update(rows.filter(pc.field("predicate") == predicate)["record"].to_pylist())
    return found
