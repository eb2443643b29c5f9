"""What two setups and two hellos come to, worked out a second time: the measure for ``interlace.negotiation``."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from bobbin import profile
from bobbin.datalog.canonicalise import identifier
from bobbin.interlace.config import Config
from bobbin.interlace.effects import Negotiated
from bobbin.interlace.limits import NAMES, VALUE_MAX, Limits
from bobbin.interlace.messages import Hello, Setup
from bobbin.interlace.schema import Schema
from bobbin.policy.executables import LocalPolicy
from bobbin.policy.operands import other
from bobbin.policy.plan import parse_plan
from bobbin.records import tai
from bobbin.simulator.closure import policy_of

_PREFIX_LENGTH: Final = 2


class Terms(Struct, frozen=True, kw_only=True):
    """What holds for one epoch."""

    plan: str
    policy: LocalPolicy
    schema: Schema
    limits: Limits
    formats: frozenset[str]
    start_ns: int
    interval_ns: int
    skew_seconds: int
    length: int
    """Of the prefixes that partitions start with."""


class Said(Struct, kw_only=True):
    """The setups and hellos of both sides, the last of each."""

    own_setup: Setup | None = None
    peer_setup: Setup | None = None
    own_hello: Hello | None = None
    peer_hello: Hello | None = None

    def say_setup(self, setup: Setup, modules: dict[str, bytes]) -> str | None:
        """Our operand; returns what is wrong with its module."""
        self.own_setup = setup
        return _keep(setup, modules)

    def hear_setup(self, setup: Setup, modules: dict[str, bytes]) -> str | None:
        """The peer's operand; returns why nobody may go on after it."""
        self.peer_setup = setup
        return _keep(setup, modules)


def _keep(setup: Setup, modules: dict[str, bytes]) -> str | None:
    """Keep the module that a setup brings; returns what is wrong with it.

    It is here from now on, even if the link ends before a plan is agreed on: "The binding supplies canonical module
    bytes when the peer does not already have them", and what has them is the side, not the link. A name has only one
    text, so bytes under another name are never kept.
    """
    if setup.module is None:
        return None
    if identifier(setup.module) != setup.operand.module:
        return "a module has another name than its bytes"
    modules[setup.operand.module] = setup.module
    return None


def work_out(
    said: Said,
    config: Config,
    notice: Negotiated,
    *,
    query: str | None,
    modules: dict[str, bytes],
    expect: Callable[[bool, str], None],
) -> Terms:
    """The terms that follow from what both sides have said. ``expect`` is told what must hold for there to be any.

    ``modules``: what setups have brought to this side, on any link, by name.
    """
    own_setup, peer_setup, own, peer = said.own_setup, said.peer_setup, said.own_hello, said.peer_hello
    assert own_setup is not None, "a plan is agreed after both setups"
    assert peer_setup is not None, "a plan is agreed after both setups"
    assert own is not None, "a plan is agreed after both hellos"
    assert peer is not None, "a plan is agreed after both hellos"
    expect({own_setup.index, peer_setup.index} == {0, 1}, "the operands are 0 and 1")
    assigned = config.peer.origin(other(own_setup.index))
    expect(peer_setup.operand.origin == assigned, "the origin of the peer is the one it was given")
    expect(own.plan == peer.plan == notice.plan, "both sides name one plan")
    expect(peer.signer in (None, config.peer.verifier), "a signer has proven itself")
    expect(config.pinned in (None, peer.signer), "a pinned peer is that peer")
    expect(all(1 <= value <= VALUE_MAX for value in peer.limits.values()), "limits can be")
    expect(1 <= peer.tick_interval_ns <= config.service.tick_interval_ns_max, "a tick interval can be")
    skew = abs(tai.parse(own.tai) - tai.parse(peer.tai)) // tai.NANOSECONDS
    expect(skew <= config.service.clock_skew_seconds_max, "the clocks agree well enough")
    start = max(own.tai, peer.tai)
    expect(notice.start_tai == start, "the start is the later hello")
    schema = own.schema & peer.schema
    policy = _policy(own_setup, peer_setup, query, modules, expect)
    expect(schema.satisfies(policy.fields), "a schema has the fields that rules read")
    formats = own.formats & peer.formats
    expect(bool(formats), "there is a common record format")
    plan = None if own.plan_bytes is None else parse_plan(own.plan_bytes, announced=own.plan)
    length = None if plan is None else plan.parameter(profile.PARTITION_PREFIX_LENGTH)
    limits = {name: min(getattr(config.limits, name), peer.limits.get(name, VALUE_MAX)) for name in NAMES}
    return Terms(
        plan=notice.plan,
        policy=policy,
        schema=schema,
        limits=Limits(**limits),
        formats=formats,
        start_ns=tai.parse(start),
        interval_ns=max(own.tick_interval_ns, peer.tick_interval_ns),
        skew_seconds=skew,
        length=int(length or _PREFIX_LENGTH),
    )


def _policy(
    own: Setup, peer: Setup, query: str | None, modules: dict[str, bytes], expect: Callable[[bool, str], None]
) -> LocalPolicy:
    expect(own.operand.module in modules, "a setup brings its own module")
    expect(peer.operand.module in modules, "a module was supplied once before it is used")
    module, theirs = modules[own.operand.module], modules[peer.operand.module]
    return policy_of(module, theirs, own.operand.origin, peer.operand.origin, query)
