"""What a machine reads: one small door to the store and to the policy over it.

Every answer is a value, so that an exchange can be recorded with what its steps have read, and replayed bit for bit.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from bobbin.interlace.built import Built
from bobbin.interlace.claim_index import ClaimIndex
from bobbin.interlace.cursor import Cursor
from bobbin.interlace.learned import Learned
from bobbin.interlace.offers import Offers
from bobbin.interlace.schema import Schema
from bobbin.interlace.wants import Wants
from bobbin.policy.claims import ClaimedField
from bobbin.policy.executables import LocalPolicy
from bobbin.policy.modules import Selector
from bobbin.policy.operands import Index
from bobbin.policy.plan import Plan
from bobbin.policy.runtime_facts import RuntimeFacts


class Question(Struct, frozen=True, kw_only=True):
    """What one evaluation is about: the runtime facts, and how the peer's claims have changed since the last one."""

    runtime: RuntimeFacts
    claimed: Mapping[str, tuple[ClaimedField, ...]] = {}
    """Records that the peer advertises now and did not, or not with these fields."""
    withdrawn: frozenset[str] = frozenset()


class Evaluated(Struct, frozen=True, kw_only=True):
    """How the decision has changed since the last evaluation of the same policy; the first one starts from nothing."""

    send_added: frozenset[str] = frozenset()
    """Records that may be sent now: stored here, and selected by both sides."""
    send_removed: frozenset[str] = frozenset()
    request_added: frozenset[str] = frozenset()
    """Advertised records that both sides select; some may be stored here already."""
    request_removed: frozenset[str] = frozenset()
    moved: frozenset[str] = frozenset()
    """Records that were stored, removed, refused or lifted since the last evaluation."""


class Memory(Struct, frozen=True, kw_only=True):
    """What a link knows at a fixed point, kept in this process so that the next exchange pays only for changes."""

    offers: Offers
    learned: Learned
    wants: Wants
    undescribed: frozenset[str] = frozenset()
    """Records that may be sent and are not offered: they were no longer stored when they were to be described."""


class Holdings(Protocol):
    """One side's validated records, seen under the policy of one link."""

    def prepare(self, plan: Plan, index: Index, *, own: Selector, peer_module: bytes) -> LocalPolicy:
        """The plan made ready to run. Raises ``PeerError`` for a module that is none."""
        ...

    def module(self, identifier: str) -> bytes | None:
        """The canonical bytes of a module that is known here."""
        ...

    def begin(self, policy: LocalPolicy, schema: Schema, key: str | None) -> "Memory | None":
        """A new epoch: from now on evaluations are of this policy.

        With a memory that was kept for the same link, policy and schema, they go on from it: the next ``Evaluated`` is
        the change since then. Without one they start from nothing, without claims.
        """
        ...

    def evaluate(self, question: Question) -> Evaluated:
        """One evaluation over one explicit snapshot of everything. Raises ``LimitExceeded`` rather than shorten."""
        ...

    def absent(self, records: Collection[str]) -> frozenset[str]:
        """Those that are neither stored here nor refused, at this moment."""
        ...

    def describe(self, records: Collection[str], schema: Schema) -> list[tuple[ClaimedField, ...] | None]:
        """The fields of stored records that a schema names, in canonical order; None for one that is not stored.

        This is of the present: what the last evaluation found stored need not be any more. Nor does the next one have
        to tell of a record that has left and come back between the two.
        """
        ...

    def expect(self, records: Sequence[str]) -> None:
        """These will be loaded in this very step, one after the other, if all goes well. Knowing it only saves work."""
        ...

    def load(self, record: str) -> bytes | None:
        """The bytes of a record, if it is stored at this moment."""
        ...

    def kept_index(self, schema: Schema) -> ClaimIndex | None:
        """An index of what was offered under the policy of this epoch, and this schema, at some time; to be changed.

        Records may have come and gone since. That there is one only saves work, so recordings know nothing of it.
        """
        ...

    def built(self, records: Collection[str], schema: Schema, length: int) -> Built | None:
        """What was computed beforehand of advertisements of these records, and of partitions of this prefix length.

        It is of this side's label under the policy of this epoch. None where nobody computes anything beforehand. That
        there is some only saves work, so recordings know nothing of it.
        """
        ...

    def cursor(self, key: str) -> Cursor | None:
        """What was saved last for a link."""
        ...
