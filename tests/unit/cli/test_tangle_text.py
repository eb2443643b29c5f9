"""Messages and tangles, shown."""

from pathlib import Path

from bobbin.cli import tangle_text
from bobbin.cli.output import Output
from bobbin.lace import Lace
from tests.support.tangle_messages import Author


def test_ids_and_previews() -> None:
    assert tangle_text.short("5sPDRob2EftEgXrp") == "5sPDRob2…"
    assert tangle_text.short("short") == "short"
    alice = Author("alice")
    moot, post = alice.feed(1)
    assert tangle_text.preview(moot) == "moot"
    assert tangle_text.preview(post) == '{"text":"post 0"}'
    assert tangle_text.preview(post.erased()) == "erased"
    long = alice.post(moot.id, {"text": "x" * 100})
    assert len(tangle_text.preview(long)) == 60
    assert "\x1b" not in tangle_text.preview(alice.post(moot.id, {"text": "\x1b[31m"}))


def test_a_message_and_a_tangle(tmp_path: Path) -> None:
    alice = Author("alice")
    moot, post = alice.feed(1)
    with Lace.create(tmp_path / "x.lace") as lace:
        lace.tangles.commit([alice.account, moot, post], tangle=moot.id)
        value = tangle_text.message_value(lace.tangles, moot.id, post)
        assert (value["depth"], value["prev"], value["standing"], value["why"]) == (1, [moot.id], "full", None)
        assert tangle_text.message_line(Output(as_json=False), lace.tangles, moot.id, post).endswith(
            '{"text":"post 0"}'
        )
        assert tangle_text.standing(lace.tangles, moot.id, "nothing") == ("unknown", None)
        whole = tangle_text.tangle_value(lace.tangles, lace.tangles.tangle("1" * 32))
        assert (whole["kind"], whole["messages"], whole["have"]) == (None, 0, None)
