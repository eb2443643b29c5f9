"""Figures that tests draw, with names as somebody might write them who wants to do harm."""

from typing import Any

from bobbin.pipeline.report.figures import (
    Balance,
    Bucket,
    Derived,
    Example,
    Figures,
    Filled,
    Named,
    Quarantine,
    Ranking,
    Rejected,
    RunFigures,
    SizeBucket,
    Sizes,
    TableFigures,
    Timeline,
    Volume,
)

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'onmouseover='alert(1)",
    "</title></style><b>",
    "left\u202eright\x00\n&amp;",
    "javascript:alert(1)",
)
DAY = 86400
AT = "1767225637:000000000"


def run_figures(job: str, counts: dict[str, int], **more: Any) -> RunFigures:  # noqa: ANN401 -- whatever a run has
    plain: dict[str, Any] = {
        "run": "20260101T000000Z-000000-0000",
        "started": AT,
        "seconds": 75.0,
        "inputs": {},
        "outputs": {},
        "notes": (),
        "plan": None,
    }
    return RunFigures(job=job, counts=counts, **{**plain, **more})


TAKEN = {"in": 8, "stored": 5, "duplicate": 2, "quarantined": 1}
COMPARED = {"common": 4, "missing": 3, "extra": 2, "differing": 1}


RANKING = Ranking(
    distinct=len(HOSTILE) + 2,
    top=tuple(Named(name=name, records=10 - at, bytes=1000) for at, name in enumerate(HOSTILE)),
    others=Volume(records=3, bytes=2500),
    without=Volume(records=2, bytes=10),
)


def figures(**changes: Any) -> Figures:  # noqa: ANN401 -- whatever a test changes
    """The figures of a small lake that has something of everything."""
    example = Example(source=HOSTILE[0], offset=12, size=40, detail=HOSTILE[1], beginning=HOSTILE[4])
    plain: dict[str, Any] = {
        "lake": f"/lakes/{HOSTILE[0]}",
        "made": AT,
        "tables": (TableFigures(name="records", number=3, rows=50, files=2, bytes=12_345),),
        "tables_total": 1,
        "records": 50,
        "described": 50,
        "facts_current": True,
        "kinds": tuple(
            Named(name=name, records=at, bytes=at * 100) for at, name in enumerate(("Blob", "Plex", "Seal"))
        ),
        "places": RANKING,
        "signers": RANKING,
        "timeline": Timeline(
            width=DAY,
            buckets=tuple(Bucket(start=20454 * DAY + at * DAY, records=at, bytes=at * 1500) for at in range(30)),
            earlier=0,
            later=0,
            first=20454 * DAY,
            last=20483 * DAY,
        ),
        "sizes": Sizes(
            total=25_000,
            least=90,
            median=400,
            most_99=900,
            largest=1000,
            buckets=(SizeBucket(low=64, high=128, records=5), SizeBucket(low=512, high=1024, records=45)),
        ),
        "balance": Balance(
            length=2,
            prefixes=4096,
            empty=4046,
            fewest=0,
            most=1,
            mean=50 / 4096,
            dispersion=0.99,
            distribution=(Filled(low=0, high=0, prefixes=4046), Filled(low=1, high=1, prefixes=50)),
        ),
        "quarantine": Quarantine(
            pieces=3,
            bytes=120,
            reasons=(Rejected(reason=HOSTILE[2], pieces=2, bytes=80, examples=(example,)),),
            other_reasons=1,
            sources=RANKING,
        ),
        "runs": (
            run_figures("reconcile", COMPARED, notes=(HOSTILE[0],)),
            run_figures("select", {}, outputs={"selections/0123456789abcdef": 7, "nothing": 0}, plan="R.x"),
            run_figures("ingest", TAKEN, notes=(HOSTILE[5],)),
        ),
        "runs_total": 5,
        "selections": (
            Derived(
                table="selections/0123456789abcdef",
                rows=7,
                properties={"plan": HOSTILE[3]},
                counts={"MaySend": 7},
                current=True,
            ),
        ),
        "advertisements": (
            Derived(
                table="advertisements/0123456789abcdef",
                rows=7,
                properties={"source": HOSTILE[0]},
                counts={},
                current=False,
            ),
        ),
        "derived_total": 4,
    }
    return Figures(**{**plain, **changes})


def empty_figures() -> Figures:
    """The figures of a lake in which nothing is."""
    none = Ranking(distinct=0, top=(), others=Volume(records=0, bytes=0), without=Volume(records=0, bytes=0))
    return figures(
        tables=(),
        tables_total=0,
        records=0,
        described=0,
        kinds=tuple(Named(name=name, records=0, bytes=0) for name in ("Blob", "Plex", "Seal")),
        places=none,
        signers=none,
        timeline=Timeline(width=DAY, buckets=(), earlier=0, later=0, first=None, last=None),
        sizes=Sizes(total=0, least=0, median=0, most_99=0, largest=0, buckets=()),
        balance=Balance(
            length=2, prefixes=4096, empty=4096, fewest=0, most=0, mean=0.0, dispersion=0.0, distribution=()
        ),
        quarantine=Quarantine(pieces=0, bytes=0, reasons=(), other_reasons=0, sources=none),
        runs=(),
        runs_total=0,
        selections=(),
        advertisements=(),
        derived_total=0,
    )
