"""From two operands to an agreed plan and its terms (Lace-050, establish and negotiate).

A small machine of its own: ``setup`` and ``hear_setup``, then ``hello`` and ``hear_hello``, the last two once more
where one side brought a plan with parameters and the other adopts it. It decides nothing about records; what it leaves
is an ``Agreement``, and before that no rule of the peer has been evaluated.
"""

from msgspec import Struct

from bobbin.interlace.capability import agree_key
from bobbin.interlace.config import Config
from bobbin.interlace.hello import Terms, negotiate
from bobbin.interlace.messages import Hello, Setup
from bobbin.interlace.ports import Holdings
from bobbin.interlace.reasons import Abort, Reason
from bobbin.interlace.schema import schema_for
from bobbin.interlace.setup import agree_plan, check_peer_setup, own_setup
from bobbin.policy.executables import LocalPolicy
from bobbin.policy.modules import Selector
from bobbin.policy.plan import Plan, parse_plan
from bobbin.records import tai


class Agreement(Struct, frozen=True, kw_only=True):
    """What both sides have agreed on."""

    plan: Plan
    policy: LocalPolicy
    """The plan as this side runs it."""
    terms: Terms
    sketch_key: bytes | None = None
    """Of the short ids of this link; None unless both sides have the capability."""

    @property
    def compresses(self) -> bool:
        """Whether blocks of the advertise phase may go compressed. Who has the capability can do that, too."""
        return self.sketch_key is not None


class Negotiation:
    """One setup and hello, up to the agreement."""

    def __init__(self, config: Config, selector: Selector, holdings: Holdings) -> None:
        """``selector``: the active one, which in an open exchange may have replaced the configured one."""
        self._config = config
        self._selector = selector
        self._holdings = holdings
        self._own_setup = own_setup(selector, own=config.own, peer=config.peer, initiator=config.initiator)
        self._peer_module: bytes | None = None
        self._plan: Plan | None = None
        self._policy: LocalPolicy | None = None
        self._own_hello: Hello | None = None
        self._adopted = False

    def setup(self) -> Setup:
        """What this side announces."""
        return self._own_setup

    def hear_setup(self, message: Setup) -> None:
        """The peer's operand: its origin and index must be those of its side, its module must be at hand and valid."""
        config = self._config
        check_peer_setup(message, own=self._own_setup, own_party=config.own, peer_party=config.peer)
        self._peer_module = self._module(message)
        self._take(agree_plan(self._own_setup, message, config.parameters))

    def hello(self, now_tai_ns: int) -> Hello:
        """This side's hello for the plan that it has."""
        assert self._plan is not None, "setup comes before hello"
        assert self._policy is not None
        config = self._config
        self._own_hello = Hello(
            plan=self._plan.identifier,
            signer=config.own.verifier,
            tai=tai.render(now_tai_ns),
            tick_interval_ns=config.service.tick_interval_ns,
            formats=config.formats,
            schema=config.schema or schema_for(self._policy.fields),
            limits=config.limits.advertised(),
            plan_bytes=self._plan.canonical if self._plan.parameters else None,
            reconcile=config.offered_share,
        )
        return self._own_hello

    def hear_hello(self, message: Hello) -> Agreement | None:
        """The agreement; None if both sides have to say hello once more, for the plan that one of them brought."""
        assert self._own_hello is not None, "our hello is out when the peer's is heard"
        assert self._plan is not None
        if message.plan != self._own_hello.plan and not self._adopted and self._adopt(message):
            self._adopted = True
            return None
        assert self._policy is not None
        config = self._config
        terms = negotiate(
            self._own_hello,
            message,
            plan=self._plan,
            required=self._policy.fields,
            limits=config.limits,
            service=config.service,
            own_verifier=config.own.verifier,
            proven_peer=config.peer.verifier,
            pinned_peer=config.pinned,
            local_formats=config.formats,
        )
        key = agree_key(self._own_hello, message, initiator=config.initiator)
        return Agreement(plan=self._plan, policy=self._policy, terms=terms, sketch_key=key)

    def _adopt(self, message: Hello) -> bool:
        """Whether exactly one side brought plan bytes. If it was the peer, its plan becomes ours."""
        assert self._own_hello is not None
        if message.plan_bytes is None:
            return self._own_hello.plan_bytes is not None
        if self._own_hello.plan_bytes is not None:
            return False
        plan = parse_plan(message.plan_bytes, announced=message.plan)
        assert self._plan is not None
        if plan.operands != self._plan.operands:
            raise Abort(Reason.PLAN_MISMATCH, "the plan that the peer brought is about other operands")
        self._take(plan)
        return True

    def _take(self, plan: Plan) -> None:
        assert self._peer_module is not None, "setup brings the peer's module"
        self._plan = plan
        index = self._own_setup.index
        self._policy = self._holdings.prepare(plan, index, own=self._selector, peer_module=self._peer_module)

    def _module(self, message: Setup) -> bytes:
        if message.module is not None:
            return message.module
        wanted = message.operand.module
        known = self._selector.canonical if wanted == self._selector.identifier else self._holdings.module(wanted)
        if known is None:
            raise Abort(Reason.PLAN_COMPILATION, f"the peer's module {wanted} was not supplied and is not known here")
        return known
