"""Record links: which headers are links, and what the others are: just headers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.records import link
from bobbin.records.link import Link

TARGET = "B.svyLzSM7ffc91i~XDbkMnuOsdjsw_6GrXpTSckqHlpO.H3"


@pytest.mark.parametrize("letter", ["B", "P", "S"])
@pytest.mark.parametrize("name", ["+Link", "Chunk+Link", "a+Link+Link"])
def test_a_link(name: str, letter: str) -> None:
    target = letter + TARGET[1:]
    assert link.parse(name, f"source {target}") == Link(data="source", target=target)


def test_it_splits_at_the_last_space() -> None:
    assert link.parse("+Link", f"0..4096 of  it {TARGET}") == Link(data="0..4096 of  it", target=TARGET)
    assert link.parse("+Link", f"trailing  {TARGET}") == Link(data="trailing ", target=TARGET)


def test_targets_of_other_suffixes_are_kept_unchecked() -> None:
    for target in ("B.0.H4", "P.zz.X", "S.anything.H33", "B.~.SHA256"):
        assert link.parse("+Link", f"x {target}") == Link(data="x", target=target)


@pytest.mark.parametrize("name", ["Link", "+link", "+LINK", "+Link ", "+Links", "", "Chunk+Link-"])
def test_other_names_are_no_links(name: str) -> None:
    assert link.parse(name, f"source {TARGET}") is None


@pytest.mark.parametrize(
    "value",
    [
        TARGET,
        f" {TARGET}",
        "",
        "source",
        f"source {TARGET} ",
        f"source {TARGET[:-2]}",
        f"source {TARGET.replace('B.', 'V.')}",
        f"source {TARGET.replace('B.', '')}",
        f"source {TARGET.replace('B.', 'BB.')}",
        f"source {TARGET[:-4]}.H3",
        f"source {TARGET.replace('pO.', 'pP.')}",  # not canonical
        "source B..H3",
        "source B..X",
        "source B.0.h4",
        "source B.0.4H",
        "source B.0.",
        "source B.0.H-4",
        "source B.=.H4",
        "source B.é.H4",
        f"source\u00a0{TARGET}",
    ],
)
def test_other_shapes_are_only_headers(value: str) -> None:
    assert link.parse("+Link", value) is None


@given(st.text(min_size=1, max_size=40), st.text(max_size=60))
def test_every_text_is_a_link_or_none(data: str, rest: str) -> None:
    found = link.parse("+Link", f"{data} {rest}")
    assert found is None or (found.data and f"{found.data} {found.target}" == f"{data} {rest}")
    assert link.parse("+Link", f"{data} {TARGET}") == Link(data=data, target=TARGET)
