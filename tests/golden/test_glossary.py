"""docs/glossary.md has every name of the seed's type tables, and says which of them is which here."""

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parent.parent.parent
_PAGE = _ROOT / "docs" / "glossary.md"
_NAMES = {
    "core": "TensorChain Block BlockHeader Transaction ChainConfig ChainError ChainMetrics",
    "consensus": (
        "RaftNode RaftState RaftConfig RaftStats QuorumTracker SnapshotMetadata LogEntry ConsensusManager DeltaVector "
        "ConflictClass FastPathValidator FastPathState TransferState HeartbeatStats"
    ),
    "transactions": (
        "DistributedTxCoordinator DistributedTransaction TxPhase PrepareVote LockManager KeyLock TxWal TxWalEntry "
        "TxRecoveryState PrepareRequest CommitRequest AbortRequest CoordinatorState ParticipantState"
    ),
    "gossip": (
        "GossipMembershipManager GossipConfig GossipMessage GossipNodeState LWWMembershipState PendingSuspicion "
        "HealProgress SignedGossipMessage"
    ),
    "deadlocks": "DeadlockDetector WaitForGraph DeadlockInfo VictimSelectionPolicy DeadlockStats WaitInfo",
    "identity": "Identity PublicIdentity SignedMessage ValidatorRegistry SequenceTracker SequenceTrackerConfig",
    "validation": "MessageValidationConfig CompositeValidator EmbeddingValidator MessageValidator",
}


def _rows() -> list[tuple[str, str]]:
    """Names there, and what is said of them."""
    table = _PAGE.read_text(encoding="utf-8").partition("## Tensor Chain's words")[2]
    return re.findall(r"^\| (`.*) \| (.*) \|$", table, flags=re.MULTILINE)


@pytest.mark.parametrize("kind", sorted(_NAMES))
def test_every_name_of_the_seed_is_in_the_glossary(kind: str) -> None:
    there = [name for names, _ in _rows() for name in re.findall(r"`(\w+)`", names)]
    assert [name for name in _NAMES[kind].split() if there.count(name) != 1] == []


def test_what_is_named_here_exists() -> None:
    """Each name on the right, and each on the left that is said to be the same, is a class; each path is a file."""
    folders = [_ROOT / "src" / "bobbin" / name for name in ("cluster", "runtime", "wire")]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    known = set(re.findall(r"^class (\w+)", text, flags=re.MULTILINE))
    known |= set(re.findall(r"^(\w+): TypeAlias", text, flags=re.MULTILINE))
    for names, said in _rows():
        here = re.findall(r"`(\w+)`", names) if said.startswith("the same") else []
        assert set(here + re.findall(r"`(\w+)`", said)) <= known, said
        for place in re.findall(r"`(\w+(?:/\w+)+(?:\.py)?)`", said):
            assert any(f"/{place}" in path.as_posix() for path in paths), place
