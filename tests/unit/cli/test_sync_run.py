"""What is checked before an exchange runs, and what is kept of one that has run."""

from pathlib import Path

import pytest
from msgspec import structs

from bobbin.cli.elsewhere import Chosen, Demands
from bobbin.cli.sync_run import Asked, sync_elsewhere, sync_folder
from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.records import coordinate
from bobbin.records.coordinate import Address, Coordinate
from bobbin.records.ids import HashText
from tests.support.served import Served
from tests.unit.cli.command_line import PLEX_1


@pytest.fixture
def asked(filled: Path, ding: Path) -> Asked:
    place = coordinate.parse("//u//ding//links/2")
    assert isinstance(place, Coordinate)
    return Asked(
        folder=filled,
        chosen=Chosen(policy=str(ding)),
        peer_policy=None,
        peer_query_policy=None,
        dry_run=False,
        explain=[Address(hash=HashText(PLEX_1)), place],
        record=None,
        rounds=1,
        through_codec=False,
        statement=False,
        receipts=False,
        full=False,
    )


def test_with_a_folder_both_sides_are_known(asked: Asked, elsewhere: Path) -> None:
    ran = sync_folder(asked, elsewhere)
    assert (ran.report.fixed_point, ran.other, ran.elsewhere) == (True, elsewhere, None)
    assert [one.peer is not None for one in ran.report.explained] == [True, True]
    assert (ran.unknown, ran.arrived) == ([], {})
    with pytest.raises(UsageError, match="--policy"):
        sync_folder(structs.replace(asked, chosen=Chosen()), elsewhere)


def test_elsewhere_what_came_is_told_by_its_place(asked: Asked, node: Served) -> None:
    ran = sync_elsewhere(asked, node.addresses["tcp"], Demands())
    assert ran.other is None
    assert ran.elsewhere is not None
    assert ran.elsewhere.verifier == node.verifier
    assert [one.peer for one in ran.report.explained] == [None, None]
    assert {one.record for one in ran.report.explained} == {PLEX_1, *ran.report.received}, "what came is explained, too"
    assert set(ran.arrived) == {"//u//ding//links/2"}
    assert set(ran.arrived.values()) == ran.report.received
    again = sync_elsewhere(asked, node.addresses["tcp"], Demands())
    assert (again.arrived, len(again.report.explained)) == ({}, 2)


def test_elsewhere_both_records_of_a_place_are_explained_or_it_is_said_that_the_peer_tells_of_none(
    asked: Asked, node: Served
) -> None:
    with Lace.open(asked.folder) as lace:
        ours = lace.put(b"ours", group="u", app="ding", name="links/2")
        private = lace.put(b"ours, too", group="private", app="ding", name="links/3")
    places = [coordinate.parse(text) for text in ("//u//ding//links/2", "//private//ding//links/3")]
    explain = [place for place in places if isinstance(place, Coordinate)]
    ran = sync_elsewhere(structs.replace(asked, explain=explain), node.addresses["tcp"], Demands())
    (theirs,) = ran.report.received
    assert {one.record for one in ran.report.explained} == {ours, theirs, private}
    assert ran.untold == ["//private//ding//links/3"]
    assert len(ran.told) == 3


def test_recordings_are_refused_before_anybody_is_dialled(asked: Asked, elsewhere: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    for changes in (
        {"record": taken},
        {"record": Path("-")},
        {"record": tmp_path / "new", "rounds": 2},
        {"record": asked.folder / "new"},
    ):
        with pytest.raises(UsageError):
            sync_elsewhere(structs.replace(asked, **changes), "tcp:127.0.0.1:1", Demands())
    with pytest.raises(UsageError):
        sync_folder(structs.replace(asked, record=elsewhere / "new"), elsewhere)
    assert not (tmp_path / "new").exists()


def test_a_place_of_which_the_peer_tells_is_not_called_unknown(asked: Asked, node: Served, tmp_path: Path) -> None:
    """What it offers there was removed here: that is explained, and nothing else is said."""
    (came,) = sync_elsewhere(asked, node.addresses["tcp"], Demands()).report.received
    with Lace.open(asked.folder) as lace:
        lace.remove(came, reason="not for us")
    policy = tmp_path / "told.dl"
    policy.write_text(
        "SelectHave(P) :- Have(P), Field(P,'Group',_,'u').\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), AdvertisedField(P,S,'App',_,_), "
        "AdvertisedField(P,S,'Name',_,_).\n",
        encoding="utf-8",
    )
    again = structs.replace(asked, explain=asked.explain[1:], chosen=Chosen(policy=str(policy)))
    ran = sync_elsewhere(again, node.addresses["tcp"], Demands())
    assert [one.record for one in ran.report.explained] == [came]
    assert ran.unknown == []
