"""Threads that one writes in and has no goal for."""

from pathlib import Path

from bobbin.cli.tangle_unwanted import threads_without_goal
from bobbin.lace import Lace
from bobbin.records.record import build_plex
from tests.unit.cli.command_line import Cli
from tests.unit.cli.tangle_laces import Woven


def test_threads_that_one_has_begun_or_replied_to(woven: Woven, tmp_path: Path) -> None:
    with Lace.create(tmp_path / "bob.lace") as bob, Lace.open(woven.folder) as lace:
        key = bob.account_keys.create("account")
        bob.tangles.new_account(key)
        assert threads_without_goal(bob) == []
        bob.tangles.commit([message for kept in lace.tangles.kept() if (message := lace.tangles.message(kept.id))])
        assert threads_without_goal(bob) == [], "somebody else's"
        assert threads_without_goal(lace) == [woven.thread], "feeds are written by oneself alone"
        bob.tangles.post(key, {"text": "reply"}, tangles=[woven.thread])
        assert threads_without_goal(bob) == [woven.thread]
        assert threads_without_goal(bob, [woven.thread, woven.feed, woven.account]) == [woven.thread]
        bob.tangles.set_goal(woven.thread, "none")
        assert threads_without_goal(bob) == [], "nothing is wanted, and that is said"


def test_a_record_that_only_names_ones_key_counts_for_nothing(woven: Woven, tmp_path: Path) -> None:
    with Lace.create(tmp_path / "bob.lace") as bob, Lace.open(woven.folder) as lace:
        key = bob.account_keys.create("account")
        bob.tangles.commit([message for kept in lace.tangles.kept() if (message := lace.tangles.message(kept.id))])
        extras = [("Pzp-Id", woven.thread), ("Pzp-Key", key.public)]
        bob.put_record(build_plex(group="x", app="pzp", name="y", tai_ns=0, data=b"", extras=extras))
        assert threads_without_goal(bob) == []


def test_a_damaged_key_stops_nothing(woven: Woven) -> None:
    (woven.folder / "keys" / "account.ed25519").write_bytes(b"damaged\n")
    with Lace.open(woven.folder) as lace:
        assert threads_without_goal(lace) == []


def test_whoever_writes_is_told_how_replies_come(woven: Woven, cli: Cli) -> None:
    begun = cli("tangle", "new", woven.folder, "thread", "-d", '{"text":"x"}')
    assert f"to get replies: bobbin tangle goal {woven.folder} {begun.text.strip()} all" in begun.err
    answer = cli("tangle", "append", woven.folder, woven.thread, "--also", woven.feed, "-d", '{"text":"x"}')
    assert answer.err == f"to get replies: bobbin tangle goal {woven.folder} {woven.thread} all\n"
    assert cli("tangle", "append", woven.folder, woven.feed, "-d", '{"text":"x"}').err == ""
    cli("tangle", "goal", woven.folder, woven.thread, "newest-5")
    assert cli("tangle", "append", woven.folder, woven.thread, "-d", '{"text":"x"}').err == ""
