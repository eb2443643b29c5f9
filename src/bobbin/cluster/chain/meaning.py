"""What the codebook has to say about a block. Likeness may spare these checks, and an empty codebook asks nothing.

A state is the vector of a key. It is known when it is near enough to a centroid, and a transition is valid when it
leads from a known state, or from none, to a known one in a step that is not too long.
"""

from collections.abc import Container, Sequence

from bobbin.cluster.chain.block import Block
from bobbin.cluster.chain.draft import Overlay
from bobbin.cluster.chain.holdings import Held, Holds, result_of, vector_of
from bobbin.cluster.chain.versions import held_by
from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.codebook.validation import CodebookValidator
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import Average, Embed, Transaction, VectorAdd, storage_key


def codes_fault(block: Block, delta: Embedding, codebook: GlobalCodebook) -> str | None:
    """Whether the codes of a header are those of the change that its operations make."""
    due = codebook.codes(delta)
    given = block.header.quantized_codes
    return None if given == due else f"the codes are {list(given)}, where {list(due)} are due"


def transitions_fault(
    overlay: Overlay, transactions: Sequence[Transaction], codebook: GlobalCodebook, promised: Container[bytes]
) -> str | None:
    """The first move in a block that is not valid. Parts that were promised are let pass: they must commit."""
    if not codebook.centroids:
        return None
    for place, one in enumerate(transactions):
        fault = None if one.id in promised else transition_fault(overlay, one, codebook)
        if fault is not None:
            return fault
        overlay.do(place, one)
    return None


def transition_fault(overlay: Overlay, transaction: Transaction, codebook: GlobalCodebook) -> str | None:
    """The first move of a vector that is not valid, of a transaction that is not done yet."""
    if not codebook.centroids:
        return None
    held: dict[bytes, Held | None] = {}
    for operation in transaction.operations:
        if not isinstance(operation, Embed | VectorAdd | Average):
            continue
        key = storage_key(operation)
        present = held[key] if key in held else held_by(overlay.newest(key))
        result = result_of(operation, present)
        if isinstance(result, str):
            continue
        held[key] = result
    validator = CodebookValidator(codebook)
    for key, after in held.items():
        before = held_by(overlay.newest(key))
        if after is not None:
            fault = _move_fault(validator, before, vector_of(after.value))
            if fault is not None:
                return fault
    return None


def _move_fault(validator: CodebookValidator, before: Held | None, after: Embedding) -> str | None:
    """A vector of no length is no state: whatever may follow it, and it may follow whatever."""
    if after.is_zero:
        return None
    stood = vector_of(before.value) if before is not None and before.holds is Holds.VECTOR else None
    if stood is not None and not stood.is_zero:
        return validator.fault(stood, after)
    return None if validator.is_valid(after) else "a vector would begin where the codebook knows nothing"
