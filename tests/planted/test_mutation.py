"""How the sample of changes is drawn and counted. `python -m evidence mutation` runs it."""

import pytest

from evidence.mutation import Count, Mutant, draw, interval, module_of, read_explained, render, report

_NAMES = [f"bobbin.policy.plan.x_parse__mutmut_{number}" for number in range(300)]
_NAMES += [f"bobbin.interlace.hello.xǁHelloǁread__mutmut_{number}" for number in range(100)]
_NAMES += ["bobbin.interlace.state.x_may_follow__mutmut_1"]


def test_a_sample_is_of_every_module_in_proportion() -> None:
    drawn = draw(_NAMES, 40, seed=1)
    assert drawn == draw(reversed(_NAMES), 40, seed=1)
    assert drawn != draw(_NAMES, 40, seed=2)
    assert len(set(drawn)) == len(drawn)
    counts = {module: sum(module_of(name) == module for name in drawn) for module in map(module_of, _NAMES)}
    assert counts == {"policy.plan": 29, "interlace.hello": 10, "interlace.state": 1}


def test_a_sample_is_at_most_everything() -> None:
    assert draw(_NAMES, 10_000, seed=1) == sorted(_NAMES)


@pytest.mark.parametrize(
    ("killed", "drawn", "low", "high"), [(90, 100, 0.826, 0.945), (0, 10, 0.0, 0.278), (10, 10, 0.722, 1.0)]
)
def test_an_interval(killed: int, drawn: int, low: float, high: float) -> None:
    assert interval(killed, drawn) == pytest.approx((low, high), abs=0.001)


def test_survivors_are_told_with_their_reasons_and_without() -> None:
    counts = {"policy.plan": Count(mutants=300, drawn=10, killed=8)}
    survivors = [
        Mutant(name="bobbin.policy.plan.x_parse__mutmut_1", old="a | b", new="a", reason="it is the same"),
        Mutant(name="bobbin.policy.plan.xǁPlanǁread__mutmut_2", old="c", new="d", reason=None),
    ]
    share, unexplained = report(counts, survivors, 0).ratios
    assert (share.value, share.missed) == (0.8, True)
    assert (unexplained.value, unexplained.missed) == (1, True)
    page = render(counts, survivors)
    assert "| `policy.plan.parse` | `a \\| b`<br>`a` | it is the same |" in page
    assert "| `policy.plan.Plan.read` | `c`<br>`d` | **not explained** |" in page


def test_every_reason_is_a_sentence_or_two() -> None:
    assert [key for key, reason in read_explained().items() if len(reason.split()) < 3] == []
