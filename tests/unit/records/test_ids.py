"""Identifiers in text: one shape, one spelling, and secrets that no error repeats."""

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import IntegrityError
from bobbin.records import ids
from bobbin.records.ids import IdentifierError, Kind
from tests.vectors.load import load

HASH = "P.tyYEj0zIBrq7IDVBPzaErPIq5p03OhpTTm14ePsSz80.H3"
VERIFIER = "V.OEL2sxn4GhPnCm_bU7hnAPU0Q0gVS8KxFlNg3zfHT2O.H3"
SECRET = "&.00420lG51WS82GdB30pE3m0H4XCK5HON61_Q6mlT7Xx.H3"


def test_a_hash_text_is_kind_and_digest() -> None:
    kind, digest = ids.parse_hash(HASH)
    assert kind is Kind.PLEX
    assert digest.hex() == "e3d88eb80f922f6d4748d7cb67e94ed994b517400362cd1d771044a59ddcf880"
    assert ids.hash_text(kind, digest) == HASH


@given(st.sampled_from(Kind), st.binary(min_size=32, max_size=32))
def test_hash_texts_come_back(kind: Kind, digest: bytes) -> None:
    assert ids.parse_hash(ids.hash_text(kind, digest)) == (kind, digest)


@given(st.lists(st.tuples(st.sampled_from(Kind), st.binary(min_size=32, max_size=32)), max_size=6))
def test_hash_texts_sort_like_kind_and_digest(pairs: list[tuple[Kind, bytes]]) -> None:
    assert sorted(ids.hash_text(*pair) for pair in pairs) == [ids.hash_text(*pair) for pair in sorted(pairs)]


def test_kinds_have_letters() -> None:
    assert [kind.letter for kind in sorted(Kind)] == ["B", "P", "S"]
    assert [Kind.of_letter(letter) for letter in "BPS"] == [Kind.BLOB, Kind.PLEX, Kind.SEAL]
    for wrong in ("", "V", "BP", "b", "BPS"):
        with pytest.raises(IdentifierError):
            Kind.of_letter(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "P.",
        "P..H3",
        HASH[:-1],
        HASH + " ",
        HASH + "\n",
        HASH + ".H3",
        HASH.replace("H3", "H4"),
        HASH.replace("H3", "h3"),
        HASH.replace("P.", "V."),
        HASH.replace("P.", "PP."),
        HASH.replace("P.", "p."),
        HASH.replace("P.", "."),
        HASH.replace("P.", "P,"),
        HASH.replace("80.H3", "81.H3"),  # the unused low bits of the last symbol are set
        HASH.replace("80.H3", "8.H3"),
        HASH.replace("80.H3", "8000.H3"),
        HASH.replace("ty", "t+"),
        HASH.replace("ty", "té"),
        HASH.replace("ty", "t\ud800"),
    ],
)
def test_what_is_no_hash(text: str) -> None:
    with pytest.raises(IdentifierError):
        ids.parse_hash(text)


def test_verifiers_and_secrets_of_the_vectors() -> None:
    for key in load("signing.json")["keys"]:
        assert ids.secret_text(bytes.fromhex(key["payload_hex"])) == key["secret"]
        assert ids.parse_secret(key["secret"]).hex() == key["payload_hex"]
        assert ids.verifier_text(ids.parse_verifier(key["verifier"])) == key["verifier"]
    assert ids.parse_verifier(VERIFIER).hex() == load("signing.json")["keys"][0]["public_x_hex"]


@pytest.mark.parametrize("text", ["", HASH, SECRET, VERIFIER[:-3], VERIFIER + "x", VERIFIER.replace("V.", "v.")])
def test_what_is_no_verifier(text: str) -> None:
    with pytest.raises(IdentifierError):
        ids.parse_verifier(text)


@pytest.mark.parametrize("text", ["", HASH, VERIFIER, SECRET[:-3], SECRET + "x", SECRET.replace("Xx.", "Xz.")])
def test_what_is_no_secret(text: str) -> None:
    with pytest.raises(IdentifierError):
        ids.parse_secret(text)


@pytest.mark.parametrize("spoilt", [SECRET[:-1], SECRET.replace("H3", "H4"), SECRET[1:], SECRET.replace("Xx.", "Xz.")])
def test_an_error_never_repeats_a_secret(spoilt: str) -> None:
    with pytest.raises(IdentifierError) as caught:
        ids.parse_secret(spoilt)
    assert SECRET[5:15] not in "".join(traceback.format_exception(caught.value))


def test_the_error_is_about_the_bytes() -> None:
    assert issubclass(IdentifierError, IntegrityError)
