"""``bobbin pipeline tangles``."""

from pathlib import Path

import pytest

from bobbin.store.lake.lake import Lake
from bobbin.tangles.plex import plex_of
from tests.support.lakes import store
from tests.support.tangle_messages import Author
from tests.unit.cli.command_line import Cli


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_what_is_said_of_each_tangle(cli: Cli, tmp_path: Path) -> None:
    alice = Author("alice")
    feed = alice.feed(4)
    lake = Lake.create(tmp_path / "x.lake")
    held = [alice.account, feed[0], feed[1], feed[3], feed[4]]
    store(lake, [plex for message in held if (plex := plex_of(message)) is not None])
    answer = cli("pipeline", "tangles", tmp_path / "x.lake", "--json")
    assert answer.code == 1
    rows = {row["tangle"]: row for row in answer.rows}
    assert set(rows) == {alice.account.id, feed[0].id}
    assert (rows[feed[0].id]["missing"], rows[feed[0].id]["have"]) == ([feed[2].id], [0, 4])
    text = cli("pipeline", "tangles", tmp_path / "x.lake").text
    assert f"{feed[0].id}  4 messages · depths 0 to 4 · 2 tips · 1 missing ({feed[2].id[:8]}…)" in text


def test_a_folder_that_is_no_lake(cli: Cli, tmp_path: Path) -> None:
    answer = cli("pipeline", "tangles", tmp_path)
    assert answer.code == 2
    assert "there is no lake" in answer.err
