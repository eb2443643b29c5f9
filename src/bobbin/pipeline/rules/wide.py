"""Facts of records from one wide row per record, without ever writing the narrow ``Field`` relation down.

All literals of a rule that speak about the same record are one *star*: one pass over the table, in which a field of a
fixed name is a column, any other field an element of ``extras``, a link an element of ``links``. Constants become
filters, and a negated literal about the same record one more filter. Only a ``Field`` whose name is a variable makes
Spark spell out every field of a record, and only of those records that pass the other literals.

Which column or list says what is in ``wide_rows``. The claims of a peer have the same form, with the source of the
claim between the record and what is claimed.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from bobbin.datalog.local.conjunction import Read
from bobbin.datalog.syntax import Constant, Term, Variable, Wildcard
from bobbin.facts import relations
from bobbin.pipeline import wide_rows
from bobbin.pipeline.batches.describe import FIXED_FIELDS
from bobbin.pipeline.wide_rows import HASHES, SINGLE_INDEX
from bobbin.policy import vocabulary

_CLAIMS: Final = {vocabulary.ADVERTISED: relations.HAVE, vocabulary.ADVERTISED_FIELD: relations.FIELD}
_ELEMENT: Final = "element"


class WideTable(Struct, frozen=True, kw_only=True):
    """Records with what they say, one row each."""

    frame: DataFrame
    """With the columns of the lake's facts table."""
    rows: int | None = None
    source: str | None = None
    """Who claims it, where these are claims and not stored records."""

    @property
    def predicates(self) -> tuple[str, ...]:
        """The predicates that this table answers for."""
        return tuple(relations.ARITY) if self.source is None else tuple(_CLAIMS)


class Star:
    """The literals of one rule about one record: a frame with a column for each of their variables."""

    def __init__(self, table: WideTable, reads: Sequence[Read], names: Mapping[str, str]) -> None:
        """``names`` says what the column of a variable is called."""
        self._table = table
        self._names = names
        self._frame = table.frame
        self._bound: dict[str, Column] = {}
        self._conditions: list[Column] = []
        self.explodes = False
        """Whether one record may come out more than once."""
        facts = [self._state(read) for read in reads]
        self._subject = facts[0].subject
        for fact in sorted(facts, key=lambda fact: fact.is_array):
            self._bind(fact.subject, f.col("record"))
            if fact.source is not None:
                self._bind(fact.source, f.lit(table.source))
            if not fact.is_array:
                self._take_column(fact)
        for fact in sorted(facts, key=lambda fact: len(self._unbound(fact.terms))):
            if fact.is_array:
                self._take_array(fact)

    @property
    def variables(self) -> frozenset[str]:
        """The variables that it binds."""
        return frozenset(self._bound)

    def answers_absence(self, read: Read) -> bool:
        """Whether a negated literal is about this very record and needs nothing from elsewhere."""
        fact = self._state(read)
        same = isinstance(self._subject, Variable) and fact.subject == self._subject
        source = () if fact.source is None else (fact.source,)
        return same and not self._unbound((*fact.terms, *source))

    def exclude(self, read: Read) -> None:
        """Keep only what the negated literal allows."""
        fact = self._state(read)
        agreed = self._agreement(fact)
        if fact.source is not None:
            agreed &= self._equal(fact.source, f.lit(self._table.source))
        self._conditions.append(~f.coalesce(agreed, f.lit(False)))  # noqa: FBT003

    def frame(self, variables: Sequence[str]) -> DataFrame:
        """The rows, with these variables as columns, perhaps repeated where a record has several."""
        self._filter()
        return self._frame.select(*(self._bound[name].alias(self._names[name]) for name in variables))

    # ---- literals ----------------------------------------------------------------------------------------------------

    def _state(self, read: Read) -> "_Fact":
        predicate, terms = read.source.predicate, read.terms
        if self._table.source is not None:
            return _Fact(_CLAIMS[predicate], terms[0], terms[2:], terms[1])
        return _Fact(predicate, terms[0], terms[1:], None)

    def _take_column(self, fact: "_Fact") -> None:
        if fact.predicate == relations.HAVE:
            return
        column = self._column(fact)
        self._conditions.append(column.isNotNull())
        if fact.predicate == relations.FIELD:
            self._bind(fact.terms[1], f.lit(SINGLE_INDEX))
        self._bind(fact.terms[-1], column)

    def _take_array(self, fact: "_Fact") -> None:
        if not self._unbound(fact.terms):
            self._conditions.append(self._agreement(fact))
            return
        self._filter()
        self.explodes = True
        element = f"{_ELEMENT}{len(self._frame.columns)}"
        array = _elements(fact)
        name = fact.terms[0]
        if fact.predicate == relations.FIELD and isinstance(name, Constant):
            array = f.filter(array, lambda one: one["name"] == name.value)
        self._frame = self._frame.withColumn(element, f.explode(array))
        for term, part in zip(fact.terms, _parts(fact, f.col(element)), strict=True):
            self._bind(term, part)

    def _agreement(self, fact: "_Fact") -> Column:
        """Whether a record has such a fact, all variables being bound."""
        if fact.predicate == relations.HAVE:
            return f.lit(True)  # noqa: FBT003
        if fact.is_array:
            return f.exists(_elements(fact), lambda one: self._all_equal(fact.terms, _parts(fact, one)))
        column = self._column(fact)
        index = [f.lit(SINGLE_INDEX)] if fact.predicate == relations.FIELD else []
        terms = fact.terms[1:] if fact.predicate == relations.FIELD else fact.terms
        return column.isNotNull() & self._all_equal(terms, [*index, column])

    @staticmethod
    def _column(fact: "_Fact") -> Column:
        if fact.predicate in HASHES:
            return f.col(HASHES[fact.predicate])
        name = fact.terms[0]
        assert isinstance(name, Constant), "a field whose name is a variable is read from the array of all fields"
        return wide_rows.fixed_field(name.value)

    # ---- terms -------------------------------------------------------------------------------------------------------

    def _bind(self, term: Term, column: Column) -> None:
        match term:
            case Wildcard():
                pass
            case Variable(name) if name not in self._bound:
                self._bound[name] = column
            case _:
                self._conditions.append(self._equal(term, column))

    def _equal(self, term: Term, column: Column) -> Column:
        match term:
            case Wildcard():
                return f.lit(True)  # noqa: FBT003
            case Variable(name):
                return self._bound[name] == column
            case Constant(value):
                return column == f.lit(value)

    def _all_equal(self, terms: Sequence[Term], columns: Sequence[Column]) -> Column:
        agreed = f.lit(True)  # noqa: FBT003
        for term, column in zip(terms, columns, strict=True):
            if not isinstance(term, Wildcard):
                agreed &= self._equal(term, column)
        return agreed

    def _unbound(self, terms: Sequence[Term]) -> list[str]:
        return [term.name for term in terms if isinstance(term, Variable) and term.name not in self._bound]

    def _filter(self) -> None:
        for condition in self._conditions:
            self._frame = self._frame.where(condition)
        self._conditions = []


class _Fact(Struct, frozen=True):
    """A literal about a record."""

    predicate: str
    subject: Term
    terms: tuple[Term, ...]
    """Its arguments without the record, and without the source of a claim."""
    source: Term | None

    @property
    def is_array(self) -> bool:
        """Whether a record may have several such facts."""
        if self.predicate == relations.FIELD:
            name = self.terms[0]
            return not (isinstance(name, Constant) and name.value in FIXED_FIELDS)
        return self.predicate == relations.RECORD_LINK


def _elements(fact: _Fact) -> Column:
    """The array that holds the facts of such a literal."""
    if fact.predicate == relations.RECORD_LINK:
        return wide_rows.links()
    return wide_rows.extras() if isinstance(fact.terms[0], Constant) else wide_rows.fields()


def _parts(fact: _Fact, element: Column) -> list[Column]:
    """What an element says, in the order of the literal's arguments."""
    names = wide_rows.LINK_PARTS if fact.predicate == relations.RECORD_LINK else wide_rows.FIELD_PARTS
    return [element[name].cast("string") for name in names]
