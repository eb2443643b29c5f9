"""The account of a synchronisation."""

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.output import Output
from bobbin.cli.tangle_sync_text import Account
from bobbin.runtime.tangle_pair import Passed
from bobbin.tangles.errors import Rule
from bobbin.tangles.session_effects import Announced, Finished, Ignored, Role
from bobbin.tangles.session_events import Refused

OUT = Output(as_json=False)


def finished(**fields: object) -> Finished:
    whole = {"tangle": "T" * 44, "role": Role.OPENER, "sent": 2, "added": ("a",), "refused": ()} | fields
    return Finished(**whole)  # type: ignore[arg-type]


def test_all_is_well() -> None:
    account = Account([finished(agreed=True), Announced(tangle="T", outwards=True, count=1)])
    assert account.code is ExitCode.OK
    assert account.lines(OUT, {}) == ["TTTTTTTT…  1 message came, 2 sent · both have the same"]


def test_what_was_here_already_is_said_where_the_peer_counts_it() -> None:
    account = Account([finished(received=3, turns=2)])
    assert account.lines(OUT, {}) == ["TTTTTTTT…  1 message came (2 more were here already), 2 sent"]
    runs = account.value({})["runs"]
    assert isinstance(runs, list)
    assert isinstance(runs[0], dict)
    assert runs[0]["received"] == 3
    nine_phases = Account([finished(received=3)])
    assert nine_phases.lines(OUT, {}) == ["TTTTTTTT…  1 message came, 2 sent"]


def test_what_did_not_come_is_said() -> None:
    refused = Refused("m" * 44, Rule.SIGNATURE, "signature invalid")
    account = Account(
        [finished(refused=(refused,), missing=3, agreed=False), Ignored(tangle=None, reason="r", detail="d")]
    )
    assert account.code is ExitCode.NOT_ALL
    lines = account.lines(OUT, {"phase 1": Passed(frames_out=1, bytes_out=79)})
    assert lines[0].endswith("the two sides still differ · 3 messages did not come")
    assert lines[1] == "  refused mmmmmmmm…: signature invalid"
    assert lines[2] == "dropped: d"
    assert lines[-1].split() == ["phase", "1", "1", "out", "79", "B", "0", "in", "0", "B"]
    value = account.value({"phase 1": Passed(frames_out=1, bytes_out=79)})
    assert value["bytes_out"] == 79
    assert value["ignored"] == [{"tangle": None, "reason": "r", "detail": "d"}]


def test_a_later_run_makes_up_for_an_earlier_one() -> None:
    assert Account([finished(missing=3), finished()]).code is ExitCode.OK
    assert Account([finished(), finished(missing=3)]).code is ExitCode.NOT_ALL
