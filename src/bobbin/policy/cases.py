"""Tests of a policy as a text that people read: records in, decisions expected.

::

    policy: ward.policy
    let head = V.OEL2sxn4GhPnCm_bU7hnAPU0Q0gVS8KxFlNg3zfHT2O.H3

    case: a shared note leaves, a private one stays
    stored note
        Group: ward
        Name: shared/1
        Signed-By: @head
    stored diary
        Group: private
    offered report
        Group: ward
    sent: note
    withheld: diary
    requested: report

A record has a name that is made up for the case, and exactly the fields that are written under it, besides its
``Type``. ``@name`` in a value stands for the hash of a record of the case, or else for a verifier: the one that ``let``
gives, or one made up from the name. The lines ``sent`` and ``requested`` are complete lists, where they stand:
whatever they do not name must not be sent or requested. ``nothing`` is the empty list.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, TypeVar

from blake3 import blake3
from msgspec import Struct

from bobbin import profile
from bobbin.errors import PeerError, ProgramError, UsageError
from bobbin.facts import block, relations
from bobbin.facts.extract import Fact, index_headers
from bobbin.policy.claims import ClaimedField, Claims
from bobbin.policy.decide import Evaluation, Situation, evaluate
from bobbin.policy.executables import make_policy
from bobbin.policy.modules import Query, Selector, compile_selector, default_query
from bobbin.policy.operands import Origin, is_verifier, parse_origin
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.verdict import Verdict, explain
from bobbin.policy.views import RecordFacts
from bobbin.records import ids
from bobbin.records.record import Header

EVERYTHING: Final = "SelectAdvertised(P,S) :- Advertised(P,S).\nSelectHave(P) :- Have(P).\n"
"""The selector of a peer that would give and take everything: so a case shows the effect of the policy alone."""

_NAME: Final = r"[A-Za-z][A-Za-z0-9_-]*"
_LET: Final = re.compile(rf"let ({_NAME}) = (\S+)")
_RECORD: Final = re.compile(rf"(stored|offered) ({_NAME})")
_SETTING: Final = re.compile(r"([a-z][a-z ]*): *(.*)")
_HEADER: Final = re.compile(r"([^\s:]+): (.+)")
_MENTION: Final = re.compile(rf"@(@|{_NAME})?")
_FILES: Final = ("policy", "peer policy", "query policy")
_LISTS: Final = ("sent", "withheld", "requested", "not requested")
_RUNTIME: Final = ("here", "peer", "transport", "encrypted", "start", "tick", "skew")
_NOTHING: Final = "nothing"

_T = TypeVar("_T")


class MalformedCases(ProgramError):
    """A text of cases cannot be read. ``line`` counts from 1. No case was run."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


class Case(Struct, frozen=True, kw_only=True):
    """One situation and what is expected of it."""

    title: str
    line: int
    situation: Situation
    here: Origin
    peer: Origin
    records: Mapping[str, str]
    """The hash of each record by its name in the case."""
    expected: Mapping[str, frozenset[str]]
    """Which records each list names, by their names; a list that does not stand there is not checked."""


class CaseFile(Struct, frozen=True, kw_only=True):
    """A whole text. The file names are as written; whoever read the text knows where to look for them."""

    policy: str | None
    peer_policy: str | None
    query_policy: str | None
    cases: tuple[Case, ...]


class Surprise(Struct, frozen=True, kw_only=True):
    """One record of a case that fared otherwise than expected."""

    record: str
    """Its name in the case."""
    expected: str
    actual: str
    verdict: Verdict


class CaseResult(Struct, frozen=True, kw_only=True):
    """How one case went."""

    title: str
    line: int
    surprises: tuple[Surprise, ...]

    @property
    def passed(self) -> bool:
        return not self.surprises


def run_cases(
    file: CaseFile, own: Selector, *, peer: Selector | None = None, query: Query | None = None
) -> tuple[CaseResult, ...]:
    """Run every case. Without ``peer``, the other side gives and takes everything."""
    other = compile_selector(EVERYTHING) if peer is None else peer
    shown = default_query() if query is None else query
    return tuple(_run(case, own, other, shown) for case in file.cases)


def _run(case: Case, own: Selector, peer: Selector, query: Query) -> CaseResult:
    policy = make_policy(own, peer, own_origin=case.here, peer_origin=case.peer, query=query)
    surprises = tuple(_surprises(case, evaluate(policy, case.situation)))
    return CaseResult(title=case.title, line=case.line, surprises=surprises)


def _surprises(case: Case, evaluation: Evaluation) -> Iterator[Surprise]:
    decision = evaluation.decision
    for name, record in case.records.items():
        leaves = record in decision.may_send
        arrives = record in decision.may_request and not case.situation.holds(record)
        for yes, no, actual in (
            ("sent", "withheld", "sent" if leaves else "withheld"),
            ("requested", "not requested", "requested" if arrives else "not requested"),
        ):
            expected = _expectation(case, name, yes, no)
            if expected is not None and expected != actual:
                verdict = explain(evaluation, record)
                yield Surprise(record=name, expected=expected, actual=actual, verdict=verdict)


def _expectation(case: Case, name: str, yes: str, no: str) -> str | None:
    """What a case expects of a record, or None where it does not say."""
    if name in case.expected.get(no, ()):
        return no
    chosen = case.expected.get(yes)
    if chosen is None:
        return None
    return yes if name in chosen else no


# ---- reading --------------------------------------------------------------------------------------------------------


def parse_cases(text: str) -> CaseFile:
    """Read a text of cases, or raise ``MalformedCases`` at the first line that makes no sense."""
    return _Reader(text).file()


class _Draft:
    """A case while it is being read."""

    def __init__(self, title: str, line: int) -> None:
        self.title = title
        self.line = line
        self.settings: dict[str, tuple[int, str]] = {}
        self.stored: dict[str, list[Header]] = {}
        self.offered: dict[str, list[Header]] = {}
        self.facts: list[tuple[int, str]] = []
        self.headers: list[Header] | None = None
        """Where the header lines that follow belong."""


class _Reader:
    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._files: dict[str, str] = {}
        self._verifiers: dict[str, str] = {}
        self._drafts: list[_Draft] = []

    def file(self) -> CaseFile:
        for number, line in enumerate(self._lines, start=1):
            if not unicodedata.is_normalized("NFC", line):
                raise MalformedCases(number, "this line is not in form NFC")
            if line.strip() and not line.lstrip().startswith("#"):
                self._line(number, line.rstrip())
        if not self._drafts:
            raise MalformedCases(len(self._lines), "there is no case; one begins with 'case: <title>'")
        return CaseFile(
            policy=self._files.get("policy"),
            peer_policy=self._files.get("peer policy"),
            query_policy=self._files.get("query policy"),
            cases=tuple(_Builder(draft, self._verifiers).case() for draft in self._drafts),
        )

    def _line(self, number: int, line: str) -> None:
        draft = self._drafts[-1] if self._drafts else None
        if line[0] in " \t":
            self._header(number, line.strip(), draft)
        elif match := _LET.fullmatch(line):
            self._let(number, match[1], match[2])
        elif match := _RECORD.fullmatch(line):
            if draft is None:
                raise MalformedCases(number, "a record belongs to a case; begin one with 'case: <title>'")
            records = draft.stored if match[1] == "stored" else draft.offered
            if match[2] == _NOTHING:
                raise MalformedCases(number, f"no record can be called {_NOTHING!r}")
            if match[2] in records:
                raise MalformedCases(number, f"{match[2]} is {match[1]} twice")
            draft.headers = records[match[2]] = []
        elif match := _SETTING.fullmatch(line):
            self._setting(number, match[1], match[2].strip(), draft)
        else:
            raise MalformedCases(number, "expected a setting, a record, 'let' or 'case:'")

    def _header(self, number: int, line: str, draft: _Draft | None) -> None:
        match = _HEADER.fullmatch(line)
        if draft is None or draft.headers is None or match is None:
            raise MalformedCases(number, "an indented line is a field, 'Name: value', of the record above it")
        draft.headers.append((match[1], match[2]))

    def _let(self, number: int, name: str, verifier: str) -> None:
        try:
            ids.parse_verifier(verifier)
        except ids.IdentifierError as error:
            raise MalformedCases(number, str(error)) from error
        self._verifiers[name] = verifier

    def _setting(self, number: int, key: str, value: str, draft: _Draft | None) -> None:
        if key == "case":
            if not value:
                raise MalformedCases(number, "a case has a title")
            self._drafts.append(_Draft(value, number))
        elif draft is None:
            if key not in _FILES or key in self._files or not value:
                raise MalformedCases(number, f"before the first case stand {', '.join(_FILES)}, once each, and 'let'")
            self._files[key] = value
        elif key == "fact":
            draft.facts.append((number, value))
        elif key in draft.settings:
            raise MalformedCases(number, f"{key!r} stands twice in this case")
        elif key in _LISTS or key in _RUNTIME:
            draft.settings[key] = (number, value)
            draft.headers = None
        else:
            raise MalformedCases(number, f"no setting is called {key!r}")


class _Builder:
    """Turns what was read of a case into facts, claims and expectations."""

    def __init__(self, draft: _Draft, verifiers: Mapping[str, str]) -> None:
        self._draft = draft
        self._verifiers = verifiers
        self._records: dict[str, str] = {}
        for records in (draft.stored, draft.offered):
            for name, headers in records.items():
                made_up = self._guard(draft.line, partial(_made_up_hash, name, headers))
                self._records.setdefault(name, made_up)

    def _expected(self) -> dict[str, frozenset[str]]:
        expected: dict[str, frozenset[str]] = {key: self._list(key) for key in _LISTS if key in self._draft.settings}
        if not expected:
            raise MalformedCases(self._draft.line, f"the case expects nothing; say {', '.join(_LISTS)}")
        for yes, no in (("sent", "withheld"), ("requested", "not requested")):
            for name in sorted(expected.get(yes, frozenset()) & expected.get(no, frozenset())):
                raise MalformedCases(self._draft.settings[no][0], f"{name} cannot be both {yes} and {no}")
        return expected

    def case(self) -> Case:
        here, peer = self._party("here"), self._party("peer")
        facts = [fact for name, headers in self._draft.stored.items() for fact in self._facts(name, headers)]
        facts += [self._fact(number, text) for number, text in self._draft.facts]
        runtime = self._guard(self._draft.line, lambda: self._runtime(here, peer))
        claims = self._guard(self._draft.line, lambda: self._claims(peer))
        return Case(
            title=self._draft.title,
            line=self._draft.line,
            situation=Situation(facts=RecordFacts(facts), claims=claims, runtime=runtime),
            here=here,
            peer=peer,
            records=dict(self._records),
            expected=self._expected(),
        )

    def _party(self, key: str) -> Origin:
        number, name = self._draft.settings.get(key, (self._draft.line, key))
        return self._guard(number, lambda: parse_origin(self._verifier(name.removeprefix("@"))))

    def _runtime(self, here: Origin, peer: Origin) -> RuntimeFacts:
        skew = self._setting("skew")
        if skew is not None and not (skew.isascii() and skew.isdigit()):
            raise UsageError(f"a skew is a number of seconds, not {skew!r}")
        if self._setting("encrypted") not in (None, "yes", "no"):
            raise UsageError("'encrypted' is yes or no")
        start = self._setting("start")
        return RuntimeFacts(
            here=ids.Verifier(here) if is_verifier(here) else None,
            peer=ids.Verifier(peer) if is_verifier(peer) else None,
            transport=self._setting("transport"),
            transport_encrypted=self._setting("encrypted") == "yes",
            start_tai=start,
            tick_tai=self._setting("tick") or start,
            clock_skew_seconds=None if skew is None else int(skew),
        )

    def _claims(self, peer: Origin) -> Claims:
        return Claims(
            peer,
            {
                self._records[name]: [
                    ClaimedField(values[1], values[2], values[3])
                    for predicate, values in self._facts(name, headers)
                    if predicate == relations.FIELD
                ]
                for name, headers in self._draft.offered.items()
            },
        )

    def _facts(self, name: str, headers: list[Header]) -> Iterator[Fact]:
        """The facts of a record that has exactly these headers."""
        record = self._records[name]
        written = tuple((header, self._expand(value)) for header, value in headers if header != "Type")
        yield relations.HAVE, (record,)
        yield relations.FIELD, (record, "Type", "0", record[0])
        for header in index_headers(written):
            yield relations.FIELD, (record, header.name, str(header.index), header.value)
            if header.link is not None:
                link = (record, header.name, str(header.index), header.link.data, header.link.target)
                yield relations.RECORD_LINK, link

    def _fact(self, number: int, text: str) -> Fact:
        """A fact that is written out."""
        try:
            ((predicate, values),) = block.parse(f"{text}\n".encode())
            expanded = tuple(map(self._expand, values))
            relations.check_pattern(predicate, expanded)
        except (PeerError, UsageError) as error:
            raise MalformedCases(number, str(error)) from error
        return predicate, expanded

    def _list(self, key: str) -> frozenset[str]:
        number, text = self._draft.settings[key]
        names = frozenset(text.replace(",", " ").split())
        if not names:
            raise MalformedCases(number, f"{key!r} names records of this case, or 'nothing'")
        if names == {_NOTHING}:
            return frozenset()
        for name in sorted(names - self._records.keys()):
            raise MalformedCases(number, f"this case has no record {name!r}")
        return names

    def _expand(self, value: str) -> str:
        """A value with what ``@`` mentions put in; ``@@`` is a plain ``@``."""

        def put_in(match: re.Match[str]) -> str:
            name = match[1]
            if name is None or name == "@":
                return "@"
            return self._records.get(name) or self._verifier(name)

        return _MENTION.sub(put_in, value)

    def _verifier(self, name: str) -> str:
        if name.startswith(("V.", profile.ORIGIN_LABEL_PREFIX)):
            return name
        return self._verifiers.get(name) or ids.verifier_text(blake3(f"verifier {name}".encode()).digest())

    def _setting(self, key: str) -> str | None:
        found = self._draft.settings.get(key)
        return None if found is None else found[1]

    def _guard(self, number: int, make: Callable[[], _T]) -> _T:
        try:
            return make()
        except UsageError as error:
            raise MalformedCases(number, str(error)) from error


def _made_up_hash(name: str, headers: list[Header]) -> str:
    """A hash for a record of this name: of the kind that its fields speak of, and the same in every run."""
    kinds = {value for header, value in headers if header == "Type"}
    sealed = any(header == "Signed-By" for header, _ in headers)
    kind = ids.Kind.SEAL if sealed else ids.Kind.PLEX
    if kinds:
        letter = min(kinds)
        if letter not in ("B", "P", "S"):
            raise UsageError(f"the Type of {name} is B, P or S, not {letter!r}")
        kind = ids.Kind.of_letter(letter)
    return ids.hash_text(kind, blake3(f"record {name}".encode()).digest())
