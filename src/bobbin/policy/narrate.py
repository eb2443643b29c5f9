"""Verdicts and explanations as text for people: plain sentences, long hashes shortened.

A rule is cited by file and line only where the reader has the file. The text of a peer's module is the canonical one,
and nobody has written that; the default query policy stands in no file at all. Such rules are cited by their words.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, assert_never

from bobbin.datalog.explanation import (
    CUT_BOUND,
    Checked,
    Cut,
    Derived,
    Explanation,
    Failure,
    Given,
    Missing,
    Statement,
)
from bobbin.datalog.syntax import Constant
from bobbin.facts.relations import FIELD, HAVE
from bobbin.policy.executables import Part
from bobbin.policy.verdict import Check, Condition, Requesting, Sending, Verdict
from bobbin.policy.vocabulary import ADVERTISED, ADVERTISED_FIELD

_LONG: Final = re.compile(r"\b([BPSVRE])\.([0-9A-Z_a-z~]{8})[0-9A-Z_a-z~]{35}(\.H3)?")
_STEP: Final = "  "
REFUSED: Final = "refused"
"""What becomes of a record that both policies let in and the store does not."""

NO_TEXTS: Final[Mapping[Part, str]] = MappingProxyType({})

_NOT_NEEDED: Final = "allowed, and not needed"
"""Over a record that both sides have."""

_FIELD_NAMES: Final = {FIELD: 1, ADVERTISED_FIELD: 2}
"""The predicates that say what a record's fields are, and where the field's name stands."""

_SENTENCES: Final = {
    Check.STORED: ("it is stored here", "it is not stored here"),
    Check.OWN_SELECTS: ("our selector chooses it", "our selector does not choose it"),
    Check.VISIBLE: ("our query policy shows it to the peer", "our query policy does not show it to the peer"),
    Check.PEER_SELECTS: ("the peer's selector chooses it", "the peer's selector does not choose it"),
    Check.ADVERTISED: ("the peer advertises it", "the peer does not advertise it"),
    Check.OWN_ACCEPTS: ("our selector accepts the advertisement", "our selector does not accept the advertisement"),
    Check.PEER_ACCEPTS: (
        "the peer's selector accepts the advertisement",
        "the peer's selector does not accept the advertisement",
    ),
    Check.NOT_STORED: ("it is not stored here yet", "it is stored here already"),
}


def shorten(text: str) -> str:
    """A text with every full identifier cut to its first symbols."""
    return _LONG.sub(lambda match: f"{match[1]}.{match[2]}…", text)


def requesting(verdict: Verdict, *, refused: bool) -> str:
    """What becomes of a record on its way in, also where the store refuses it whatever policies say."""
    if refused and verdict.requesting is Requesting.REQUESTED:
        return REFUSED
    return verdict.requesting.value


def narrate(
    verdict: Verdict,
    *,
    full: bool = False,
    refusal: str | None = None,
    texts: Mapping[Part, str] = NO_TEXTS,
    is_over: bool = False,
) -> str:
    """A verdict for a terminal. With ``full``, no identifier is shortened.

    ``refusal`` is why the record was removed here and is refused; None where it is not. ``texts`` names the files that
    the programs were read from, as the reader knows them. With ``is_over`` the verdict is about the moment after an
    exchange: then it says what is allowed, and not what happens.
    """
    lines = [
        verdict.record,
        f"{_STEP}to {verdict.peer}: {_sending(verdict, is_over=is_over)}",
        *_conditions(verdict.to_send),
        f"{_STEP}from {verdict.peer}: {_requesting(verdict, refused=refusal is not None, is_over=is_over)}",
        *_conditions(verdict.to_request),
    ]
    if refusal is not None:
        lines.append(f"{_STEP * 2}✗ it was removed here and is refused: {refusal}")
    for conditions, decided in (
        (verdict.to_send, verdict.sending is Sending.SENT),
        (verdict.to_request, verdict.requesting is Requesting.REQUESTED),
    ):
        if conditions[0].holds and not (conditions is verdict.to_request and decided and refusal is not None):
            lines += _reasons(conditions, texts, decided=decided)
    text = "\n".join(lines) + "\n"
    return text if full else verdict.record + shorten(text[len(verdict.record) :])


def _sending(verdict: Verdict, *, is_over: bool) -> str:
    """The headline over the conditions of sending. Only what is here can be withheld."""
    if not verdict.to_send[0].holds:
        return "nothing to send"
    if verdict.sending is Sending.SENT and verdict.to_request[0].holds:
        return _NOT_NEEDED
    return "allowed" if is_over and verdict.sending is Sending.SENT else verdict.sending.value


def _requesting(verdict: Verdict, *, refused: bool, is_over: bool) -> str:
    """The headline over the conditions of requesting. Whoever has a record needs no permission to have it."""
    if not verdict.to_request[0].holds:
        return "nothing to request"
    *allowed, absent = verdict.to_request
    if all(condition.holds for condition in allowed) and not absent.holds:
        return _NOT_NEEDED
    word = requesting(verdict, refused=refused)
    return "allowed" if is_over and word == Requesting.REQUESTED.value else word


def _conditions(conditions: tuple[Condition, ...]) -> Iterator[str]:
    """One line each. Of a record that is not there to be sent or requested, nothing else needs saying."""
    for condition in conditions if conditions[0].holds else conditions[:1]:
        yield f"{_STEP * 2}{'✓' if condition.holds else '✗'} {_sentence(condition)}"


def _reasons(conditions: tuple[Condition, ...], texts: Mapping[Part, str], *, decided: bool) -> Iterator[str]:
    """Why everything holds, or why the first thing that fails does."""
    shown = conditions if decided else [next(condition for condition in conditions if not condition.holds)]
    for condition in shown:
        if condition.explanation is not None:
            yield ""
            yield f"{_sentence(condition)[0].upper()}{_sentence(condition)[1:]}:"
            text = None if condition.part is None else texts.get(condition.part)
            yield from describe(condition.explanation, _STEP, text)


def _sentence(condition: Condition) -> str:
    positive, negative = _SENTENCES[condition.check]
    return positive if condition.holds else negative


def describe(explanation: Explanation, indent: str = "", text: str | None = None) -> Iterator[str]:
    """An explanation, line by line. ``text`` is the file that its rules stand in, if the reader has one."""
    match explanation:
        case Given(fact):
            yield f"{indent}{fact}"
        case Checked(literal):
            yield f"{indent}{literal}"
        case Cut(fact, why):
            yield f"{indent}{fact}  ({why})"
        case Derived(fact, rule, line, because):
            where = "the rule" if text is None else f"{text}:{line}"
            if not because:
                yield (
                    f"{indent}{fact}  as a fact of the policy"
                    if text is None
                    else f"{indent}{fact}  as a fact, {where}"
                )
                return
            yield f"{indent}{fact}  by {where}"
            yield f"{indent}{_STEP}{rule}"
            for reason in because:
                yield from describe(reason, indent + _STEP * 2, text)
        case Missing():
            yield from _describe_missing(explanation, indent, text)
        case _:
            assert_never(explanation)


def _describe_missing(missing: Missing, indent: str, text: str | None) -> Iterator[str]:
    if not missing.failures:
        yield f"{indent}{missing.fact}: {missing.note or 'no rule derives it'}"
        return
    count = len(missing.failures)
    yield f"{indent}{'one rule' if count == 1 else f'{count} rules'} could derive {missing.fact}, but:"
    for failure in missing.failures:
        yield from _describe_failure(failure, indent + _STEP, text)
    if missing.note:
        yield f"{indent}{_STEP}{missing.note}"


def _describe_failure(failure: Failure, indent: str, text: str | None) -> Iterator[str]:
    yield f"{indent}{failure.rule}" if text is None else f"{indent}{text}:{failure.line}: {failure.rule}"
    inner = indent + _STEP
    if failure.literal is None or failure.instance is None:
        yield f"{inner}does not apply: {failure.note}" if failure.note != CUT_BOUND else f"{inner}{failure.note}"
        return
    met = f"meets {failure.met} of {failure.literals} conditions and " if failure.met else ""
    yield f"{inner}{met}fails at {failure.literal}"
    yield f"{inner}{_shortfall(failure, failure.instance)}"
    match failure.because:
        case None | Given() | Missing(failures=()):
            pass
        case more:
            yield from describe(more, inner + _STEP, text)


def _shortfall(failure: Failure, wanted: Statement) -> str:
    """What is missing or in the way, as a sentence."""
    if wanted.negated:
        holds = failure.because.fact if isinstance(failure.because, Given | Derived | Cut) else None
        positive = Statement(wanted.predicate, wanted.values)
        return f"because {holds or positive} holds"
    if wanted.predicate in _FIELD_NAMES:
        return _field_shortfall(failure, wanted)
    if wanted.predicate == HAVE:
        return f"because {wanted.values[0] or 'such a record'} is not among the records that these rules see"
    if wanted.predicate == ADVERTISED:
        return f"because {wanted.values[0] or 'such a record'} is not advertised"
    if failure.nearest:
        return f"because {wanted} does not hold; nearest: {', '.join(map(str, failure.nearest))}"
    return f"because {wanted} does not hold"


def _field_shortfall(failure: Failure, wanted: Statement) -> str:
    record, name, value = wanted.values[0], wanted.values[_FIELD_NAMES[wanted.predicate]], wanted.values[-1]
    who = record or "no record"
    says = "has" if wanted.predicate == FIELD else "is said to have"
    if record is None or name is None:
        return f"because {wanted} does not hold"
    same = [near.values[-1] for near in failure.nearest if near.values[0] == record and near.values[:-1][-2] == name]
    if same and value is not None:
        found = " and ".join(str(Constant(text)) for text in same if text is not None)
        return f"because the {name} of {who} is {found}, not {Constant(value)}"
    return f"because {who} {says} no {name}"
