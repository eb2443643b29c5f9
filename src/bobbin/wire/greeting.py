"""The first two phases of a stream: the preface with its nonce, and the proof.

They come before any machine, because a machine begins with what has been proven. A driver writes its preface and waits
for the peer's ``nonce``: a proof needs both. The initiator writes its proof then; the responder waits until the
greeting is ``complete``, checks the proof and the peer, and writes its own after that. Neither writes anything else
before it has checked the other. The stream goes on from there, with whatever bytes came along, in an
``interlace.Decoder``.
"""

from typing import Final

from bobbin.errors import UsageError
from bobbin.interlace.reasons import Abort, Reason
from bobbin.wire import elements, proof
from bobbin.wire.elements import Elements, Facts, Kind, PhaseEnd, Preface
from bobbin.wire.proof import Proof


def encode_preface(nonce: bytes) -> bytes:
    """The first phase of this side. ``nonce`` is 32 random bytes, never used for another link."""
    if len(nonce) != elements.NONCE_SIZE:
        raise UsageError(f"a nonce has {elements.NONCE_SIZE} bytes")
    return elements.preface(nonce) + elements.PHASE_END


def encode_proof(own: Proof | None) -> bytes:
    """The second phase of this side; None where it has nothing to prove, or no wish to."""
    return proof.render(own) + elements.PHASE_END


class Greeting:
    """Reads the peer's first two phases, and nothing beyond them."""

    def __init__(self, stream: Elements) -> None:
        """``stream`` is at its very beginning."""
        self.stream: Final = stream
        self.nonce: bytes | None = None
        """Of the peer's preface, once that is complete."""
        self.proof: Proof | None = None
        """What the peer gives as proof, not verified."""
        self.complete = False
        self._preface: Preface | None = None
        self._facts = b""
        stream.admits = frozenset()
        stream.fact_bytes_max = proof.PROOF_BYTES_MAX

    def feed(self, data: bytes) -> None:
        """Take bytes. What belongs to later phases stays in the stream."""
        self.stream.feed(data)
        while not self.complete and (element := self.stream.next()):
            match element:
                case Preface():
                    self._preface = element
                case Facts():
                    self._facts += element.block
                case PhaseEnd():
                    self._end_phase()
                case _:
                    raise Abort(Reason.OUT_OF_PHASE, "only a preface and a proof may begin a stream")

    def _end_phase(self) -> None:
        if self.nonce is None:
            assert self._preface is not None, "a stream gives its preface before anything else"
            self.nonce = self._preface.nonce
            self.stream.admits = frozenset({Kind.FACTS})
            return
        self.proof = proof.read(self._facts)
        self.stream.admits = frozenset()
        self.complete = True
