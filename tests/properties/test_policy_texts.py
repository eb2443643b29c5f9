"""Laws of what is read and written: plans, modules from peers, compositions, layout."""

import unicodedata
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from bobbin.datalog.canonicalise import identifier
from bobbin.errors import PeerError
from bobbin.policy.check import identify
from bobbin.policy.compose import intersect, unite
from bobbin.policy.layout import lay_out
from bobbin.policy.modules import MalformedModule, compile_selector, receive_selector
from bobbin.policy.operands import Operand, Origin, label_origin
from bobbin.policy.plan import make_plan, parse_plan
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.trial import derive
from tests.policy_worlds import (
    ALICE,
    BOB,
    DING,
    DING_IDENTIFIER,
    plex,
    random_claims,
    random_record,
    random_selector,
    stored,
)
from tests.properties.effort import scaled

_HASHES = [plex(number) for number in range(7)]
_PLAN = make_plan(
    Operand(module=DING_IDENTIFIER, origin=Origin(BOB)),
    Operand(module=DING_IDENTIFIER, origin=Origin(ALICE)),
    {"partition_prefix_length": "3"},
)
_seeds = st.integers(min_value=0, max_value=2**32).map(Random)


@given(st.data())
def test_a_damaged_plan_is_refused_or_is_another_plan(data: st.DataObject) -> None:
    raw = bytearray(_PLAN.canonical)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(raw)))
        end = data.draw(st.integers(start, min(start + 4, len(raw))))
        raw[start:end] = data.draw(st.binary(max_size=3))
    try:
        plan = parse_plan(bytes(raw))
    except PeerError:
        return
    assert plan.canonical == bytes(raw)
    assert (plan.identifier == _PLAN.identifier) == (bytes(raw) == _PLAN.canonical)


@given(st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable()))
def test_a_plan_with_any_label_reads_back(text: str) -> None:
    origin = label_origin(unicodedata.normalize("NFC", text))
    plan = make_plan(Operand(module=DING_IDENTIFIER, origin=origin), _PLAN.operands[1])
    assert parse_plan(plan.canonical, announced=plan.identifier) == plan


@given(st.binary(max_size=60) | st.text(alphabet="SelectHav(P,Q):-. 'not\n", max_size=60).map(str.encode))
@example(DING.encode())
def test_a_module_of_a_peer_is_canonical_or_refused(raw: bytes) -> None:
    try:
        selector = receive_selector(raw, identifier(raw))
    except MalformedModule:
        return
    assert selector.canonical == raw


@given(_seeds)
@scaled(0.25)
def test_compositions_are_unions_and_intersections(random: Random) -> None:
    parts = [compile_selector(random_selector(random, _HASHES)) for _ in range(random.randint(1, 3))]
    facts = stored(*(random_record(random, hash, _HASHES) for hash in _HASHES[:5]))
    claims = random_claims(random, _HASHES)
    runtime = RuntimeFacts()
    alone = [derive(part, facts, runtime=runtime, claims=claims) for part in parts]
    union = derive(compile_selector(unite(parts)), facts, runtime=runtime, claims=claims)
    common = derive(compile_selector(intersect(parts)), facts, runtime=runtime, claims=claims)
    for export in ("SelectHave", "SelectAdvertised"):
        sets = [derived.get(export, frozenset()) for derived in alone]
        assert union.get(export, frozenset()) == frozenset().union(*sets)
        assert common.get(export, frozenset()) == sets[0].intersection(*sets)


@given(_seeds)
@scaled(0.50)
def test_layout_changes_neither_meaning_nor_comments(random: Random) -> None:
    text = ""
    comments = []
    for line in random_selector(random, _HASHES).splitlines():
        if random.random() < 0.4:
            comments.append(f"# {random.choice(('one', 'two.', ':- three', 'it isn%t'))}")
            text += f"{' ' * random.randint(0, 3)}{comments[-1]}\n"
        text += "\n" * random.randint(0, 3)
        text += random.choice((line, line.replace(" :- ", "\n   :-  "), line.replace("), ", ")  ,\n  ")))
        if random.random() < 0.3:
            comments.append("% behind")
            text += f"  {comments[-1]}"
        text += "\n"
    neat = lay_out(text)
    assert identify(neat) == identify(text)
    assert lay_out(neat) == neat
    rules = [line for line in neat.splitlines() if line and line[0] not in "#%"]
    assert [line.partition("  %")[0] for line in rules] == _rules_of(text)
    kept = [line for line in neat.replace("  %", "\n%").splitlines() if line and line[0] in "#%"]
    assert kept == comments


def _rules_of(text: str) -> list[str]:
    """The rules of a text, canonical, in its order."""
    return [str(rule) for rule in compile_selector(text).program.rules]
