"""Signature verification: the recovery method, two multiplications, Ed25519 in C."""

import itertools
from collections.abc import Iterable

from nacl.bindings import crypto_sign, crypto_sign_open, crypto_sign_seed_keypair

from benchmarks.rounds import rate_of, rate_row, ratio_row, setting, take_turns
from bobbin.records import ids, signing
from bobbin.records.signing import SigningKey
from bobbin.runtime.workers import Validators
from measurement.result import Result

QUESTION = (
    "How many signatures of 32-byte digests are verified per second on one core: by the recovery method that Bobbin "
    "uses, by two plain multiplications of the same library, and by PyNaCl's Ed25519?"
)
WORKERS = 2


def run() -> Result:
    """Measure."""
    count = setting("VERIFY_ITEMS", 500)
    rounds = setting("VERIFY_ROUNDS", 61)
    key = SigningKey.from_secret(bytes(range(32)))
    public_x = ids.parse_verifier(key.verifier)
    messages = [number.to_bytes(32, "big") for number in range(count)]
    items = [(public_x, message, key.sign(message, auxiliary=b"\x01" * 32)) for message in messages]
    public, secret = crypto_sign_seed_keypair(bytes(range(32)))
    signed = [crypto_sign(message, secret) for message in messages]
    many = list(itertools.chain.from_iterable(items for _ in range(8)))

    with Validators(WORKERS) as pool:
        check(pool.verify(items))
        rates = take_turns(
            {
                "recovery": lambda: rate_of(lambda: check(signing.is_valid(*item) for item in items), count),
                "plain": lambda: rate_of(lambda: check(signing.is_valid_plainly(*item) for item in items), count),
                "ed25519": lambda: rate_of(lambda: check(crypto_sign_open(one, public) for one in signed), count),
                "workers": lambda: rate_of(lambda: check(pool.verify(many)), len(many)),
            },
            rounds=rounds,
        )
    unit = "verifications/s"
    note = f"{count} signatures a round, median of {rounds} rounds"
    return Result(
        question=QUESTION,
        rows=[
            rate_row("recovery method", rates, "recovery", unit=unit, note=note),
            rate_row("two multiplications", rates, "plain", unit=unit, note=note),
            rate_row("PyNaCl Ed25519", rates, "ed25519", unit=unit, note=f"32-byte messages; {note}"),
            rate_row(
                f"recovery method, {WORKERS} worker processes",
                rates,
                "workers",
                unit=unit,
                note=f"{len(many)} signatures a round, there and back over pipes",
            ),
        ],
        ratios=[
            ratio_row("recovery / two multiplications", rates, "recovery", "plain"),
            ratio_row("recovery / Ed25519", rates, "recovery", "ed25519"),
            ratio_row(f"{WORKERS} workers / one process", rates, "workers", "recovery"),
        ],
    )


def check(answers: Iterable[object]) -> None:
    """Every signature here is good, so every method must say so."""
    if not all(answers):
        raise AssertionError("a good signature was refused")
