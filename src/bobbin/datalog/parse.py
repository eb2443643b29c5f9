"""From text to a program, with the place of everything.

The grammar is small enough to read off::

    rule    = atom [ ":-" literal { "," literal } ] "."
    literal = [ "not" ] atom
    atom    = Name "(" [ term { "," term } ] ")"
    term    = Name | "_" | 'constant'

White space stands around ``:-``, around the commas between literals and before the full stop, never inside an atom;
``not`` is followed by spaces. Comments run from ``#`` or ``%`` to the end of the line and stand between rules. After a
mistake the parser goes on behind the next full stop that ends a line or is followed by white space, so one slip does
not hide the next.
"""

import re
import unicodedata
from typing import Final, NoReturn

from bobbin import profile
from bobbin.datalog.diagnostics import Fault, InvalidProgram, Report
from bobbin.datalog.limits import DEFAULT, Limits
from bobbin.datalog.syntax import Atom, Constant, Literal, Place, Program, Rule, Term, Variable, Wildcard
from bobbin.facts.text import CONSTANT, KNOWN_ESCAPES, NAME, UnknownEscape, unescape

_TOKEN: Final = re.compile(
    r"(?P<space>[ \t\n]+)"
    r"|(?P<comment>[#%][^\n\r]*)"
    rf"|(?P<name>{NAME})"
    r"|(?P<not>not(?![A-Za-z0-9_]))"
    r"|(?P<wildcard>_(?![A-Za-z0-9_]))"
    rf"|(?P<constant>{CONSTANT})"
    r"|(?P<implies>:-)"
    r"|(?P<mark>[(),.])",
)
_OPEN_CONSTANT: Final = re.compile(CONSTANT.removesuffix("'"))
_WORD: Final = re.compile(r"\w{1,40}")
_RECOVERY: Final = re.compile(r"\.(?=[ \t\n]|\Z)")
_SHOWN_MAX: Final = 60
"""Characters of the program that a message quotes."""

_QUOTE: Final = '["`´‘’“”]'
_ALTERNATIVE: Final = "write another rule with the same head for an alternative; a comma means and"
_COMPARISONS: Final = {
    ">": ("Gt(X,Y)", "NumLt(Y,X)"),
    ">=": ("Ge(X,Y)", "NumLe(Y,X)"),
    "=>": ("Ge(X,Y)", "NumLe(Y,X)"),
    "<": ("Lt(X,Y)", "NumLt(X,Y)"),
    "<=": ("Le(X,Y)", "NumLe(X,Y)"),
    "=<": ("Le(X,Y)", "NumLe(X,Y)"),
}
"""What compares texts and times, and what compares numbers."""
_SLIPS: Final = (
    (re.compile(rf"{_QUOTE}(?P<text>[^\x00-\x1f\x7f\"`´‘’“”]{{0,{_SHOWN_MAX}}}+){_QUOTE}?"), "quotes"),
    (re.compile(r"<-|:=|[:←⇐]"), "arrow"),
    (re.compile(r"!=|<>|≠"), "unequal"),
    (re.compile(r"[<>]=?|=[<>]"), "comparison"),
    (re.compile(r"==?"), "equal"),
    (re.compile(rf"(?:!|¬|~|\\\+) *(?P<name>{NAME})?"), "negation"),
    (re.compile(r"[;|∨]|or\b"), "alternative"),
    (re.compile(r"[&∧]|and\b"), "and"),
    (re.compile(rf"[-+]?[0-9][0-9A-Za-z_]{{0,{_SHOWN_MAX}}}+(?:[.:][0-9]{{1,{_SHOWN_MAX}}}+)*+"), "number"),
    (re.compile(r"//|/\*|--"), "comment"),
)
"""How other languages spell what this one spells otherwise."""


class _Slip(Exception):
    """A rule cannot be read further; the diagnostic is already in the report."""


def parse(text: str | bytes, limits: Limits = DEFAULT) -> Program:
    """Read a program, or raise ``InvalidProgram`` with every mistake of spelling and structure."""
    report = Report(limits.diagnostics_max)
    program = _Parser(_decode(text, limits, report), limits, report).program()
    report.raise_if_any()
    return program


def _decode(text: str | bytes, limits: Limits, report: Report) -> str:
    _check_size(len(text), limits, report)
    try:
        decoded = text if isinstance(text, str) else text.decode()
        _check_size(len(decoded.encode()), limits, report)
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        report.add(Fault.ENCODING, "the program is not UTF-8 text", _place_of(error))
        report.raise_if_any()
        raise
    if not unicodedata.is_normalized("NFC", decoded):
        for number, line in enumerate(decoded.split("\n"), start=1):
            if not unicodedata.is_normalized("NFC", line):
                fix = "save the file in normalization form NFC"
                report.add(Fault.NORMALIZATION, "this line is not in form NFC", Place(number, 1), fix)
    report.raise_if_any()
    return decoded


def _check_size(size: int, limits: Limits, report: Report) -> None:
    if size > limits.program_bytes_max:
        report.add(Fault.LIMIT, f"a program has at most {limits.program_bytes_max} bytes, not {size}", Place(1, 1))
        report.raise_if_any()


def _place_of(error: UnicodeDecodeError | UnicodeEncodeError) -> Place:
    """Where the first character stands that has no encoding, or the first byte that belongs to none."""
    before = error.object[: error.start]
    intact = before if isinstance(before, str) else before.decode()
    return Place(intact.count("\n") + 1, len(intact) - intact.rfind("\n"))


class _Parser:
    def __init__(self, text: str, limits: Limits, report: Report) -> None:
        self._text = text
        self._limits = limits
        self._report = report
        self._at = 0
        self._line = 1
        self._line_start = 0
        self._kind = ""
        self._value = ""
        self._place = Place(1, 1)
        self._gap = ""
        """White space before the current token."""
        self._gaps = 0
        """How many tokens so far had white space before them."""
        self._comment: Place | None = None
        """The last comment before the current token."""

    def program(self) -> Program:
        rules: list[Rule] = []
        self._advance_or_recover()
        while self._kind != "end" and not self._report.full:
            try:
                rules.append(self._rule())
            except _Slip:
                self._recover()
            if len(rules) > self._limits.rules_max:
                self._report.add(Fault.LIMIT, f"a program has at most {self._limits.rules_max} rules", self._place)
                break
        return Program(tuple(rules))

    # ---- grammar --------------------------------------------------------------------------------------------------

    def _rule(self) -> Rule:
        place = self._place
        head = self._atom()
        body: list[Literal] = []
        self._check_comment()
        if self._kind == "implies":
            self._advance()
            body.append(self._literal())
            while self._value == ",":
                self._check_comment()
                self._advance()
                body.append(self._literal())
            self._check_comment()
        if self._value != ".":
            wanted = "a comma or the full stop" if body else "':-' or the full stop"
            last = _shorten(str(body[-1] if body else head))
            self._slip(f"expected {wanted} after {last}, found {self._found()}")
        self._count("literals in a rule", len(body), self._limits.literals_max, place)
        self._advance_or_recover()
        return Rule(head, tuple(body), place)

    def _literal(self) -> Literal:
        self._check_comment()
        place = self._place
        negated = self._kind == "not"
        if negated:
            self._advance()
            if self._comment is not None or self._gap.strip(" "):
                self._report.add(Fault.SYNTAX, "only spaces stand between 'not' and its predicate", self._place)
            if self._kind == "not":
                self._slip("'not' stands twice", "write the literal without either, or with one")
            if self._value == "(":
                self._slip("a parenthesis stands after 'not'", _negation(self._text, self._at))
        return Literal(self._atom(), negated, place)

    def _atom(self) -> Atom:
        place = self._place
        if self._kind != "name":
            fix = "a comma is followed by a literal, a full stop by nothing or a rule"
            fix = fix if self._value in (".", ",") else "predicates begin with a capital letter"
            self._slip(f"expected a predicate, found {self._found()}", fix)
        gaps, predicate = self._gaps, self._value
        shown = _shorten(predicate)
        self._count("characters in a name", len(predicate), profile.NAME_CHARACTERS_MAX, place)
        self._advance()
        if self._value != "(":
            fix = f"write not {self._value}(…)" if _is_not(predicate) and self._kind == "name" else f"write {shown}(…)"
            self._slip(f"expected '(' after {shown}, found {self._found()}", fix)
        terms: list[Term] = []
        self._advance()
        if self._value != ")":
            terms.append(self._term())
            while self._value == ",":
                self._advance()
                terms.append(self._term())
        if self._value != ")":
            self._slip(
                f"expected a comma or ')' in {shown}, found {self._found()}", self._argument_fix(terms, predicate)
            )
        if self._gaps != gaps:
            sentence = f"white space stands inside {shown}(…)"
            self._report.add(Fault.SYNTAX, sentence, place, "write its arguments without spaces")
        self._count("arguments of a predicate", len(terms), self._limits.arity_max, place)
        self._advance()
        return Atom(predicate, tuple(terms))

    def _argument_fix(self, terms: list[Term], predicate: str) -> str | None:
        """How to mend an argument that goes on where it should have ended."""
        last = terms[-1] if terms else None
        if self._kind == "constant" and isinstance(last, Constant) and not self._gap:
            return "write \\' for a quote inside a constant"
        if self._value == "(" and isinstance(last, Variable):
            if _is_not(predicate):
                return f"write not {_shorten(last.name)}(…)"
            return "arguments are variables, '_' and constants; predicates do not nest"
        return None

    def _term(self) -> Term:
        term: Term
        match self._kind:
            case "name":
                self._count("characters in a name", len(self._value), profile.NAME_CHARACTERS_MAX, self._place)
                term = Variable(self._value)
            case "wildcard":
                term = Wildcard()
            case "constant":
                term = Constant(self._unescape(self._value[1:-1]))
            case _:
                self._slip(f"expected a variable, '_' or a constant, found {self._found()}")
        self._advance()
        return term

    def _unescape(self, spelled: str) -> str:
        try:
            value = unescape(spelled)
        except UnknownEscape as error:
            self._report.add(Fault.CONSTANT, str(error), self._place, f"known: {KNOWN_ESCAPES}")
            return ""
        self._count("bytes in a constant", len(value.encode()), self._limits.constant_bytes_max, self._place)
        return value

    def _check_comment(self) -> None:
        if self._comment is not None:
            self._report.add(Fault.SYNTAX, "a comment stands inside a rule", self._comment, "move it above the rule")

    # ---- tokens ---------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Read the next token. A text that is no token is a slip."""
        self._gap = ""
        self._comment = None
        while True:
            self._place = Place(self._line, self._at - self._line_start + 1)
            if self._at == len(self._text):
                self._kind, self._value = "end", ""
                return
            token = _TOKEN.match(self._text, self._at)
            if token is None:
                self._kind, self._value = "unknown", self._text[self._at]
                self._explain_unknown()
            self._at = token.end()
            self._kind, self._value = token.lastgroup or "", token[0]
            if self._kind == "space":
                self._count_lines(token.start(), token.end())
                self._gap = token[0]
                self._gaps += 1
            elif self._kind == "comment":
                self._comment = self._place
            else:
                return

    def _count_lines(self, start: int, end: int) -> None:
        breaks = self._text.count("\n", start, end)
        if breaks:
            self._line += breaks
            self._line_start = self._text.rindex("\n", start, end) + 1

    def _explain_unknown(self) -> NoReturn:
        character = self._value
        if character == "'":
            self._explain_open_constant()
        if character < " " or character == "\x7f":
            sentence = f"the control character U+{ord(character):04X} has no place in a program"
            self._slip(sentence, "lines end with LF only" if character == "\r" else None)
        if hint := _hint(self._text, self._at):
            self._slip(*hint)
        if character.islower() and (word := _WORD.match(self._text, self._at)):
            fix = f"both begin with a capital letter; a text stands in quotes: '{word[0]}'"
            self._slip(f"{word[0]!r} is neither a predicate nor a variable", fix)
        self._slip(f"{character!r} has no meaning here")

    def _explain_open_constant(self) -> NoReturn:
        within = _OPEN_CONSTANT.match(self._text, self._at)
        end = within.end() if within else self._at
        found = self._text[end : end + 1]
        if found == "\\":
            found = self._text[end + 1 : end + 2]
        if found in ("", "\n"):
            fix = "end it with ' on the same line, and write \\' for a quote inside"
            self._slip("a constant is not closed", fix)
        spelled = profile.CONSTANT_ESCAPES.get(found)
        sentence = f"the control character U+{ord(found):04X} stands in a constant"
        self._slip(sentence, f"write {spelled}" if spelled else "no constant can hold it", Fault.CONSTANT)

    def _found(self) -> str:
        return "the end of the text" if self._kind == "end" else repr(_shorten(self._value))

    def _slip(self, message: str, fix: str | None = None, fault: Fault = Fault.SYNTAX) -> NoReturn:
        self._report.add(fault, message, self._place, fix)
        raise _Slip

    def _advance_or_recover(self) -> None:
        try:
            self._advance()
        except _Slip:
            self._recover()

    def _recover(self) -> None:
        """Go on behind the next full stop that ends a rule. Each try moves forward, so this ends."""
        at_stop = self._value == "."
        while not self._report.full:
            if not at_stop:
                stop = _RECOVERY.search(self._text, self._at)
                end = stop.end() if stop else len(self._text)
                self._count_lines(self._at, end)
                self._at = end
            try:
                self._advance()
                return
            except _Slip:
                self._at += 1
                at_stop = False

    def _count(self, what: str, count: int, limit: int, place: Place) -> None:
        if count > limit:
            self._report.add(Fault.LIMIT, f"at most {limit} {what}, not {count}", place)


def _is_not(predicate: str) -> bool:
    """Whether a predicate is likely the word ``not`` in capitals."""
    return predicate.lower() == "not"


def _negation(text: str, at: int) -> str:
    """How a negated literal is written, with the predicate that follows if one does."""
    name = re.compile(NAME).match(text, at)
    return f"write not {_shorten(name[0]) if name else 'Predicate'}(…)"


def _hint(text: str, at: int) -> tuple[str, str] | None:
    """What is wrong where no token begins and how to mend it, if it looks like the habit of another language."""
    for pattern, kind in _SLIPS:
        if found := pattern.match(text, at):
            spelled = repr(found[0])
            match kind:
                case "quotes":
                    shown = str(Constant(found["text"]))
                    return f"a constant stands in single quotes, not in {found[0][0]}", f"write {shown}"
                case "arrow":
                    return f"{spelled} has no meaning here", "write :- between the head of a rule and its body"
                case "unequal":
                    return f"{spelled} is no operator here", "write Ne(X,Y)"
                case "comparison":
                    texts, numbers = _COMPARISONS[found[0]]
                    return f"{spelled} is no operator here", f"write {texts} for texts and times, {numbers} for numbers"
                case "equal":
                    return f"{spelled} is no operator here", "write Eq(X,Y), or the same variable in both places"
                case "negation":
                    return "negation is the word not", f"write not {_shorten(found['name'] or 'Predicate')}(…)"
                case "alternative":
                    return f"{spelled} has no meaning here", _ALTERNATIVE
                case "and":
                    return f"{spelled} has no meaning here", "write a comma between literals"
                case "number":
                    return f"{_shorten(found[0])} stands without quotes", f"values are texts: write '{found[0]}'"
                case _:
                    return f"{spelled} has no meaning here", "a comment begins with #"
    return None


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


__all__ = ["InvalidProgram", "parse"]
