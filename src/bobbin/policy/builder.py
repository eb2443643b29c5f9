"""Policies for the ordinary cases, without learning the rule language: conditions in, plain policy text out.

::

    staff = membership(group="ward", admins=[head_physician])
    text = write(
        select(group("ward"), app("notes"), name_prefix("shared/"), signed_by_member(staff), last(7 * 86_400)),
        evidence(staff),
    )

A selection is a list of conditions that must all hold; a policy selects what any of its selections does. Both exports
are written alike: what is said of stored records under ``SelectHave`` is said of advertised ones under
``SelectAdvertised``. Membership is always judged by stored, validated evidence, never by what a peer claims.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias, assert_never

from msgspec import Struct

from bobbin.datalog.diagnostics import InvalidProgram
from bobbin.datalog.syntax import Constant
from bobbin.errors import UsageError
from bobbin.policy.modules import compile_selector
from bobbin.records import ids, tai

_NANOSECONDS_MAX: Final = tai.TAI_MAX


class FieldIs(Struct, frozen=True):
    """A field of this name has one of these values."""

    name: str
    values: tuple[str, ...]


class FieldStarts(Struct, frozen=True):
    """A field of this name begins with this text."""

    name: str
    prefix: str


class Since(Struct, frozen=True):
    """The record is dated at or after this time."""

    tai: str


class Until(Struct, frozen=True):
    """The record is dated before this time."""

    tai: str


class NotOlder(Struct, frozen=True):
    """The record is dated at most this long before the tick of the exchange."""

    nanoseconds: int


class Membership(Struct, frozen=True, kw_only=True):
    """Who belongs to a group, by evidence: a record in the group, under this app, named after the member's verifier."""

    group: str
    admins: tuple[str, ...]
    """Verifiers whose evidence counts."""
    app: str
    revocations: str | None
    """The app whose records, made the same way, end a membership; None where nothing does."""
    delegating: bool
    """Whether evidence that a member signed counts as well."""


class SignedByMember(Struct, frozen=True):
    """The record is sealed by a member."""

    membership: Membership


class SignedByIssuer(Struct, frozen=True):
    """The record is sealed by someone whose evidence of membership counts."""

    membership: Membership


Condition: TypeAlias = FieldIs | FieldStarts | Since | Until | NotOlder | SignedByMember | SignedByIssuer


class Selection(Struct, frozen=True):
    """Records that meet all of some conditions."""

    conditions: tuple[Condition, ...]


# ---- what a policy author writes ------------------------------------------------------------------------------------


def select(*conditions: Condition) -> Selection:
    """The records that meet all these conditions; without any, every record."""
    return Selection(conditions)


def group(*names: str) -> Condition:
    """In one of these groups."""
    return field("Group", *names)


def app(*names: str) -> Condition:
    """Under one of these apps."""
    return field("App", *names)


def name(*names: str) -> Condition:
    """With one of these names."""
    return field("Name", *names)


def name_prefix(prefix: str) -> Condition:
    """With a name that begins with this text; end it with ``/`` for everything below a path."""
    if not prefix:
        raise UsageError("an empty prefix is no condition; leave it out")
    return FieldStarts("Name", prefix)


def signer(*verifiers: str) -> Condition:
    """Sealed by one of these verifiers."""
    return FieldIs("Signed-By", _verifiers(verifiers))


def field(header: str, *values: str) -> Condition:
    """With a field of this name that has one of these values."""
    if not values:
        raise UsageError(f"a condition on {header} names at least one value")
    return FieldIs(header, tuple(dict.fromkeys(values)))


def after(time: str) -> Condition:
    """Dated at this TAI time or later."""
    tai.parse(time)
    return Since(time)


def before(time: str) -> Condition:
    """Dated before this TAI time."""
    tai.parse(time)
    return Until(time)


def last(seconds: int) -> Condition:
    """Dated no longer than this before the shared tick time of the exchange. The window moves with the tick."""
    nanoseconds = seconds * tai.NANOSECONDS
    if not 0 < nanoseconds <= _NANOSECONDS_MAX:
        raise UsageError(f"a time window has a positive number of seconds, not {seconds}")
    return NotOlder(nanoseconds)


def membership(
    *,
    group: str,
    admins: Iterable[str],
    app: str = "member",
    revocations: str | None = None,
    delegating: bool = False,
) -> Membership:
    """Evidence of membership: sealed records whose name is the member's verifier."""
    return Membership(group=group, admins=_verifiers(admins), app=app, revocations=revocations, delegating=delegating)


def signed_by_member(of: Membership) -> Condition:
    """Sealed by a member, as far as stored evidence says."""
    return SignedByMember(of)


def evidence(of: Membership) -> Selection:
    """The evidence itself. It travels only if it is selected, and the other side needs it to agree."""
    apps = (of.app,) if of.revocations is None else (of.app, of.revocations)
    return Selection((FieldIs("Group", (of.group,)), FieldIs("App", apps), SignedByIssuer(of)))


def write(*selections: Selection) -> str:
    """A policy text that selects what any of the selections does."""
    if not selections:
        raise UsageError("a policy has at least one selection; use deny_all_selector() to select nothing")
    writer = _Writer()
    stored = [writer.stored(selection) for selection in selections]
    claimed = [writer.claimed(selection) for selection in selections]
    text = "".join(f"{line}\n" for line in dict.fromkeys([*stored, *claimed, *writer.helpers]))
    try:
        compile_selector(text)
    except InvalidProgram as error:
        raise UsageError(f"these conditions make no policy: {error.diagnostics[0].message}") from error
    return text


def _verifiers(texts: Iterable[str]) -> tuple[str, ...]:
    kept = tuple(dict.fromkeys(texts))
    if not kept:
        raise UsageError("name at least one verifier")
    for text in kept:
        try:
            ids.parse_verifier(text)
        except ids.IdentifierError as error:
            raise UsageError(str(error)) from error
    return kept


# ---- rules ----------------------------------------------------------------------------------------------------------


class _Writer:
    """Turns selections into rules, and numbers the helper predicates that they need."""

    def __init__(self) -> None:
        self.helpers: list[str] = []
        self._names: dict[tuple[str, object], str] = {}

    def stored(self, selection: Selection) -> str:
        """The rule about records that are stored."""
        return f"SelectHave(P) :- {', '.join(['Have(P)', *self._body('Field(P', selection)])}."

    def claimed(self, selection: Selection) -> str:
        """The same rule about records that are advertised."""
        body = ["Advertised(P,S)", *self._body("AdvertisedField(P,S", selection)]
        return f"SelectAdvertised(P,S) :- {', '.join(body)}."

    def _body(self, opening: str, selection: Selection) -> list[str]:
        literals: list[str] = []
        used: dict[str, int] = {}
        for condition in selection.conditions:
            letter = _letter(condition)
            count = used[letter] = used.get(letter, 0) + 1
            literals += self._literals(opening, "" if count == 1 else str(count), condition)
        return literals

    def _literals(self, opening: str, mark: str, condition: Condition) -> list[str]:
        match condition:
            case FieldIs(header, (value,)):
                return [f"{opening},{Constant(header)},_,{Constant(value)})"]
            case FieldIs(header, values):
                helper = self._list("OneOf", values)
                return [f"{opening},{Constant(header)},_,V{mark})", f"{helper}(V{mark})"]
            case FieldStarts(header, prefix):
                return [f"{opening},{Constant(header)},_,N{mark})", f"StartsWith(N{mark},{Constant(prefix)})"]
            case Since(time):
                return [f"{opening},'TAI',_,T{mark})", f"Ge(T{mark},{Constant(time)})"]
            case Until(time):
                return [f"{opening},'TAI',_,T{mark})", f"Lt(T{mark},{Constant(time)})"]
            case NotOlder(nanoseconds):
                clock = [f"TickTAI(Now{mark})", f"TaiSub(Now{mark},'{nanoseconds}',Since{mark})"]
                return [*clock, f"{opening},'TAI',_,T{mark})", f"Ge(T{mark},Since{mark})"]
            case SignedByMember(of):
                return [f"{opening},'Signed-By',_,V{mark})", f"{self._member(of)}(V{mark})"]
            case SignedByIssuer(of):
                self._member(of)
                return [f"{opening},'Signed-By',_,V{mark})", f"{self._issuer(of)}(V{mark})"]
            case _:
                assert_never(condition)

    def _list(self, kind: str, values: tuple[str, ...]) -> str:
        """The helper that is true of these values."""
        helper, new = self._helper(kind, values)
        if new:
            self.helpers += [f"{helper}({Constant(value)})." for value in values]
        return helper

    def _member(self, of: Membership) -> str:
        """The helper that is true of members."""
        helper, new = self._helper("Member", of)
        if not new:
            return helper
        ending = []
        if of.revocations is not None:
            revoked, _ = self._helper("Revoked", of)
            admin = self._list("Admin", of.admins)
            self.helpers.append(f"{revoked}(V) :- {self._evidence(of.group, of.revocations, admin)}.")
            ending = [f"not {revoked}(V)"]
        body = ", ".join([self._evidence(of.group, of.app, self._issuer(of)), *ending])
        self.helpers.append(f"{helper}(V) :- {body}.")
        return helper

    def _issuer(self, of: Membership) -> str:
        """The helper that is true of those whose evidence counts."""
        admin = self._list("Admin", of.admins)
        if not of.delegating:
            return admin
        helper, new = self._helper("Issuer", of)
        if new:
            member, _ = self._helper("Member", of)
            self.helpers += [f"{helper}(V) :- {admin}(V).", f"{helper}(V) :- {member}(V)."]
        return helper

    def _evidence(self, group: str, app: str, issuer: str) -> str:
        return (
            f"Have(M), Field(M,'Group',_,{Constant(group)}), Field(M,'App',_,{Constant(app)}), "
            f"Field(M,'Signed-By',_,A), {issuer}(A), Field(M,'Name',_,V)"
        )

    def _helper(self, kind: str, meaning: object) -> tuple[str, bool]:
        """The name of the helper for a meaning, and whether it was given just now."""
        known = self._names.get((kind, meaning))
        if known is not None:
            return known, False
        count = sum(1 for other, _ in self._names if other == kind)
        fresh = self._names[kind, meaning] = kind if not count else f"{kind}{count + 1}"
        return fresh, True


def _letter(condition: Condition) -> str:
    """The variable that a condition needs; a second condition with the same one numbers it."""
    match condition:
        case FieldIs(_, (_,)):
            return ""
        case FieldIs() | SignedByMember() | SignedByIssuer():
            return "V"
        case FieldStarts():
            return "N"
        case Since() | Until() | NotOlder():
            return "T"
        case _:
            assert_never(condition)
