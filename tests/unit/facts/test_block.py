import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin import profile
from bobbin.errors import PeerError, UsageError
from bobbin.facts import block
from bobbin.facts.block import MalformedBlock, OversizedBlock, parse, read, render, render_fact
from bobbin.facts.extract import Fact

P = "P.tyYEj0zIBrq7IDVBPzaErPIq5p03OhpTTm14ePsSz80.H3"
V = "V.OEL2sxn4GhPnCm_bU7hnAPU0Q0gVS8KxFlNg3zfHT2O.H3"

_NAMES = st.from_regex(r"[A-Z][A-Za-z0-9_]{0,63}", fullmatch=True)
_VALUES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("'\\,()\t"),
    max_size=40,
).map(lambda text: unicodedata.normalize("NFC", text))
_FACTS: st.SearchStrategy[Fact] = st.tuples(_NAMES, st.lists(_VALUES, max_size=16).map(tuple))


def _is_writable(fact: Fact) -> bool:
    return unicodedata.is_normalized("NFC", render_fact(*fact))  # all but a tab before a combining mark


# ---- what a block is -------------------------------------------------------------------------------------------------


def test_the_advertisement_record_of_the_protocol_page() -> None:
    raw = (
        f"Advertised('{P}','{V}')\n"
        f"AdvertisedField('{P}','{V}','App','0','ding')\n"
        f"AdvertisedField('{P}','{V}','Group','0','u')\n"
        f"AdvertisedField('{P}','{V}','Name','0','links/1')\n"
        f"AdvertisedField('{P}','{V}','Type','0','P')\n"
    ).encode()
    facts = [
        ("Advertised", (P, V)),
        ("AdvertisedField", (P, V, "App", "0", "ding")),
        ("AdvertisedField", (P, V, "Group", "0", "u")),
        ("AdvertisedField", (P, V, "Name", "0", "links/1")),
        ("AdvertisedField", (P, V, "Type", "0", "P")),
    ]
    assert parse(raw) == facts
    assert render(facts) == raw


@pytest.mark.parametrize(
    ("raw", "facts"),
    [
        (b"", []),
        (b"HelloAllAdvertisedFields()\n", [("HelloAllAdvertisedFields", ())]),
        (b"A('')\n", [("A", ("",))]),
        (b"A('','')\n", [("A", ("", ""))]),
        (b"A(',',',')\n", [("A", (",", ","))]),
        (rb"A('\\','\'','\t')" + b"\n", [("A", ("\\", "'", "\t"))]),
        (rb"A('\'','\'')" + b"\n", [("A", ("'", "'"))]),
        (b"A(')')\n", [("A", (")",))]),
        (b"A(').','B(')\n", [("A", (").", "B("))]),
        (b"A(' a  b ')\n", [("A", (" a  b ",))]),
        (b"A('# no comment','% nor this',':-')\n", [("A", ("# no comment", "% nor this", ":-"))]),
        ("A('é𝄞')\n".encode(), [("A", ("é𝄞",))]),
        (b"A('x')\nA('x')\nB()\nA('x')\n", [("A", ("x",)), ("A", ("x",)), ("B", ()), ("A", ("x",))]),
        ("A('\u0085\u2028')\n".encode(), [("A", ("\u0085\u2028",))]),
    ],
)
def test_exact_texts(raw: bytes, facts: list[Fact]) -> None:
    assert parse(raw) == facts
    assert render(facts) == raw


@given(st.lists(_FACTS.filter(_is_writable), max_size=8))
def test_what_is_written_is_read_back(facts: list[Fact]) -> None:
    assert parse(render(facts)) == facts


@given(
    st.lists(
        st.sampled_from(["A", "B1", "(", ")", "'", ",", "\\", "\\t", "\n", "x", " ", "é", "()", "('x')", "\r", "."]),
        max_size=14,
    )
)
def test_what_is_read_is_written_back_byte_for_byte(pieces: list[str]) -> None:
    """There is one spelling: whatever the parser accepts is exactly what the printer would have made."""
    raw = "".join(pieces).encode()
    try:
        facts = parse(raw)
    except PeerError:
        return
    assert render(facts) == raw


@given(_FACTS.filter(_is_writable))
def test_the_shortcut_for_common_lines_reads_what_the_exact_way_reads(fact: Fact) -> None:
    line = render_fact(*fact)
    assert [block._parse_line(line, 1)] == parse(f"{line}\n".encode())


def test_a_predicate_named_often_is_kept_once() -> None:
    first, second = parse(b"Advertised('a')\nAdvertised('b')\n")
    assert first[0] is second[0]


# ---- what it is not --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "line", "reason"),
    [
        (b"A('x')", 1, "does not end with LF"),
        (b"A('x')\nB('y')", 2, "does not end with LF"),
        (b"A('x')\r\n", 1, "CR"),
        (b"A('x')\rB('y')\n", 1, "CR"),
        (b"\n", 1, "blank"),
        (b"A('x')\n\nB('y')\n", 2, "blank"),
        (b"A('x')\n\n", 2, "blank"),
        (b"# comment\n", 1, "comment"),
        (b"A('x')\n% comment\n", 2, "comment"),
        (b"A('x') # comment\n", 1, "form"),
        (b"A(X) :- B(X).\n", 1, "rule"),
        (b"A('x').\n", 1, "full stop"),
        (b"A('x')B('y')\n", 1, "form"),
        (b"A('x') B('y')\n", 1, "form"),
        (b"A('x',\n'y')\n", 1, "form"),
        (b" A('x')\n", 1, "begin with the name"),
        (b"A ('x')\n", 1, "form"),
        (b"A( 'x')\n", 1, "form"),
        (b"A('x' )\n", 1, "form"),
        (b"A('x', 'y')\n", 1, "form"),
        (b"A('x')\t\n", 1, "form"),
        (b"A('x') \n", 1, "form"),
        (b"A\n", 1, "form"),
        (b"A(\n", 1, "form"),
        (b"A('x'\n", 1, "form"),
        (b"A(,)\n", 1, "form"),
        (b"A('x',)\n", 1, "form"),
        (b"A(,'x')\n", 1, "form"),
        (b"A('x''y')\n", 1, "form"),
        (b"A(x)\n", 1, "form"),
        (b"A(X)\n", 1, "form"),
        (b"A(_)\n", 1, "form"),
        (b'A("x")\n', 1, "form"),
        (b"A('it's')\n", 1, "form"),
        (b"A('a','b'c')\n", 1, "form"),
        (b"A(''')\n", 1, "form"),
        (b"A('\\')\n", 1, "form"),
        (b"a('x')\n", 1, "begin with the name"),
        (b"HelloLimit-X('x')\n", 1, "form"),
        ("É('x')\n".encode(), 1, "begin with the name"),
        ("Aé('x')\n".encode(), 1, "form"),
        (b"_('x')\n", 1, "begin with the name"),
        (b"not A('x')\n", 1, "begin with the name"),
        (rb"A('\x')" + b"\n", 1, r"no escape is spelled \\x"),
        (rb"A('\u0041')" + b"\n", 1, r"no escape is spelled \\u"),
        (rb"A('a\nb')" + b"\n", 1, "line break"),
        (rb"A('\r')" + b"\n", 1, "line break"),
        (b"A('\t')\n", 1, "form"),
        (b"A('\x00')\n", 1, "form"),
        (b"A('\x7f')\n", 1, "form"),
        (b"B()\nA('\xff')\n", 2, "not UTF-8"),
        (b"B()\nA('\xc0\xaf')\n", 2, "not UTF-8"),
        (b"A('\xed\xa0\x80')\n", 1, "not UTF-8"),
        (b"A('\xc3", 1, "not UTF-8"),
        ("B()\nB()\nA('e\u0301')\n".encode(), 3, "NFC"),
        ("A('\\t\u030c')\n".encode(), 1, "NFC"),
        ("\ufeffA('x')\n".encode(), 1, "begin with the name"),
    ],
)
def test_malformed_blocks_are_refused_at_their_line(raw: bytes, line: int, reason: str) -> None:
    with pytest.raises(MalformedBlock, match=reason) as caught:
        parse(raw)
    assert caught.value.line == line
    assert caught.value.code == block.MALFORMED == "malformed-fact-block"


def test_names_have_at_most_64_characters() -> None:
    name = "A" * profile.NAME_CHARACTERS_MAX
    assert parse(f"{name}('x')\n{name}()\n".encode()) == [(name, ("x",)), (name, ())]
    for text in (f"{name}A('x')\n", f"{name}A()\n"):
        with pytest.raises(MalformedBlock, match="at most 64 characters"):
            parse(text.encode())


def test_facts_have_at_most_16_arguments() -> None:
    constants = ",".join(["'x'"] * 16)
    assert parse(f"A({constants})\n".encode()) == [("A", ("x",) * 16)]
    with pytest.raises(MalformedBlock, match="at most 16 arguments"):
        parse(f"A({constants},'x')\n".encode())


@pytest.mark.parametrize("character", ["x", "é", "€", "𝄞", "\\'", "\\\\"])
def test_values_have_at_most_4096_bytes(character: str) -> None:
    size = 1 if character.startswith("\\") else len(character.encode())
    longest = character * (4096 // size) + "x" * (4096 % size)
    ((_, (value,)),) = parse(f"A('{longest}')\n".encode())
    assert len(value.encode()) == 4096
    with pytest.raises(MalformedBlock, match="at most 4096 bytes"):
        parse(f"B()\nA('x','{longest}x')\n".encode())


def test_a_block_of_too_many_bytes_is_not_looked_at() -> None:
    raw = b"A('x')\n" * 3
    assert len(parse(raw, bytes_max=21)) == 3
    with pytest.raises(OversizedBlock, match="at most 20 bytes, not 21") as caught:
        parse(raw, bytes_max=20)
    assert caught.value.code == block.OVERSIZED == "oversized-fact-block"
    with pytest.raises(OversizedBlock):
        parse(b"\xff" * 21, bytes_max=20)


def test_a_block_of_too_many_lines_is_refused() -> None:
    assert len(parse(b"A()\n" * 5, lines_max=5)) == 5
    with pytest.raises(OversizedBlock, match="at most 5 lines, not 6"):
        parse(b"A()\n" * 6, lines_max=5)


def test_the_default_size_is_64_mebibytes() -> None:
    assert block.BLOCK_BYTES_MAX == 64 * 2**20


def test_reading_line_by_line_yields_what_stands_before_the_mistake() -> None:
    facts = read(b"A('x')\nB('y')\nb('z')\n")
    assert next(facts) == ("A", ("x",))
    assert next(facts) == ("B", ("y",))
    with pytest.raises(MalformedBlock):
        next(facts)


@pytest.mark.parametrize(
    "line",
    [
        "A(" + "'x'," * 100_000,
        "A('" + "\\'" * 100_000,
        "A('" + "x" * 200_000,
        "A('" + "'" * 200_000,
        "A('" + "','" * 100_000,
        "A" * 200_000,
        "A('" + "\\\\" * 100_000 + "'",
    ],
)
def test_a_hostile_line_costs_no_more_than_its_length(line: str) -> None:
    """Each of these would keep a backtracking expression busy for ages."""
    with pytest.raises(MalformedBlock):
        parse(f"{line}\n".encode())


# ---- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["a\nb", "a\rb", "a\x00b", "\x7f", "\ud800", "e\u0301", "\t\u030c", "\x0b", "x" * 4097, "é" * 2049]
)
def test_a_value_that_no_block_can_hold_is_not_written(value: str) -> None:
    with pytest.raises(UsageError):
        render([("A", ("fine", value))])


@pytest.mark.parametrize("name", ["", "a", "É", "A-B", "A(", "A B", "A" * 65, "_", "A\n", "9"])
def test_a_name_that_no_block_can_hold_is_not_written(name: str) -> None:
    with pytest.raises(UsageError, match="not the name of a predicate"):
        render([(name, ("x",))])


def test_too_many_arguments_are_not_written() -> None:
    assert parse(render([("A", ("x",) * 16)])) == [("A", ("x",) * 16)]
    with pytest.raises(UsageError, match="17 arguments"):
        render([("A", ("x",) * 17)])


def test_the_longest_values_are_written() -> None:
    facts = [("A", ("é" * 2048, "'" * 4096))]
    assert parse(render(facts)) == facts


@given(st.text(max_size=30), st.lists(st.text(max_size=30), max_size=18).map(tuple))
def test_any_fact_is_written_so_that_it_can_be_read_or_refused(name: str, values: tuple[str, ...]) -> None:
    try:
        raw = render([(name, values)])
    except UsageError:
        return
    assert parse(raw) == [(name, values)]
    assert re.fullmatch(rb"[^\r\n]*\n", raw)
