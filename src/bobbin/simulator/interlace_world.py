"""A world of exchanges: two or three nodes, links that break, clocks that are wrong, and peers that lie.

One world is one seed. For a while it is troubled: exchanges run over every link and are begun anew when they have
ended, while records come and go, policies change, clocks jump, links break and nodes crash. Beside every machine of an
honest node stands a witness (``oracle``). Then the troubles end, and the world is held to the rest of the promises:

* every machine ends, once; a bounded exchange ends by itself;
* between honest nodes an end is a fixed point or has a reason that this world has given;
* what is stored is what came in and was not removed, every record of it valid;
* calm exchanges then lead to a fixed point, checked by brute force; without negation it is the one that plain sets
  lead to.
"""

from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import Final, NoReturn

from msgspec import structs

from bobbin.errors import ResourceError
from bobbin.interlace.config import Bounded, Config
from bobbin.interlace.events import Cancelled, OperandChanged, Started
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.reasons import Reason
from bobbin.interlace.setup import Party
from bobbin.policy.modules import Query
from bobbin.records.record import Record, validate
from bobbin.records.signing import SigningKey
from bobbin.simulator import policies
from bobbin.simulator.circumstances import (
    CALM,
    MILLISECOND_NS,
    calm_config,
    draw_circumstances,
    draw_config,
    draw_sketching,
    draw_weather,
)
from bobbin.simulator.clock import SECOND_NS, NodeClock, Timeline
from bobbin.simulator.closure import close, missing
from bobbin.simulator.decided import Decided
from bobbin.simulator.disk_vault import DiskHoldings, DiskVault
from bobbin.simulator.endpoint import Endpoint
from bobbin.simulator.hostile import Hostile
from bobbin.simulator.network import Link, Weather
from bobbin.simulator.node import MemoryVault, Node, Vault
from bobbin.simulator.oracle import Witness
from bobbin.simulator.population import populate
from bobbin.simulator.streams import ByteStream, Item, MessageStream, Stream, truncate
from bobbin.simulator.world import Broken

STEPS_MAX: Final = 60_000
EXCHANGES_MAX: Final = 4
"""On one link, in the troubled part."""
TROUBLES_MAX: Final = 24
AHEAD_MAX: Final = 2
"""Messages on their way in one direction, above what the link asks for: nobody is further ahead of the other."""
CALM_PASSES_MAX: Final = 12
PATIENCE_NS: Final = 3_600 * SECOND_NS
PERSIST_NS_MAX: Final = 30 * MILLISECOND_NS

_LIMITS: Final = frozenset(
    {
        Reason.TRANSFER_LIMIT,
        Reason.LISTING_LIMIT,
        Reason.SUMMARY_LIMIT,
        Reason.NARROWING_LIMIT,
        Reason.LOOP_LIMIT,
        Reason.OVERSIZED_BLOCK,
    }
)


class _Exchange:
    """Two machines on one link."""

    def __init__(self, link: Link[Item], ends: tuple[Endpoint, Endpoint], *, number: int) -> None:
        self.link: Final = link
        self.ends: Final = ends
        self.number: Final = number
        self.items_max: Final = link.weather.items_max

    @property
    def is_over(self) -> bool:
        return all(end.is_over for end in self.ends)

    @property
    def is_honest(self) -> bool:
        return all(end.node.honest for end in self.ends)


def _recalls(holdings: DiskHoldings) -> Callable[[], bool]:
    return lambda: holdings.has_recalled


class InterlaceWorld:
    """One seeded world."""

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        self.seed: Final = seed
        self.tally: Final[Counter[str]] = Counter()
        self.trace: Final[list[str]] = []
        self._is_traced = is_traced
        self._random = Random(f"interlace {seed}")  # noqa: S311 (a seed is the point)
        self._strategies = Random(f"strategies {seed}")  # noqa: S311 (as above)
        self.circumstances: Final = draw_circumstances(self._random)
        self._timeline = Timeline()
        self._decided = Decided()
        self._population = populate(
            self._random, self.circumstances.records, is_clustered=self.circumstances.is_clustered
        )
        self._everything: Final[dict[str, Record]] = {record.hash: record for record in self._population.records}
        self.nodes: Final = self._make_nodes()
        self._links: Final = list(zip(self.nodes, self.nodes[1:], strict=False))
        self._cursor_keys = [f"link {number}" if self._random.random() < 0.7 else None for number in range(2)]
        self._exchanges: list[_Exchange] = []
        self._begun = [0] * len(self._links)
        self._is_troubled = True
        self._steps = 0
        self._troubles = 0
        self._tell(f"seed {seed}: {self.circumstances}")
        for node in self.nodes:
            self._tell(f"{node.name} holds {len(node.records)}, {node.choice}")

    @property
    def digest(self) -> str:
        """The hash of the trace: the same for the same seed, everywhere."""
        return sha256("\n".join(self.trace).encode()).hexdigest()

    def run(self) -> Counter[str]:
        """Live through it; raises ``Broken`` at the first broken promise."""
        self.tally["worlds"] += 1
        self.tally["hostile worlds"] += self.circumstances.is_hostile
        self.tally["disk worlds"] += self.circumstances.is_disk
        self.tally["byte worlds"] += self.circumstances.is_bytes
        try:
            self._be_troubled()
            self._end_troubles()
            self._calm_down()
            self._audit()
        except Broken:
            raise
        except AssertionError as error:
            raise Broken(f"seed {self.seed}: an invariant of a machine does not hold: {error}") from error
        finally:
            for node in self.nodes:
                node.vault.close()
        return self.tally

    # ---- making ---------------------------------------------------------------------------------------------------

    def _make_nodes(self) -> list[Node]:
        random, shape = self._random, self.circumstances
        nodes: list[Node] = []
        shared: policies.Choice | None = None
        for number in range(shape.nodes):
            choice = shared if shared is not None and shape.one_policy else self._choose_policy()
            shared = choice
            clock = NodeClock(
                self._timeline,
                skew_ns=random.choice((0, 1, 5, 5, 200)) * random.randint(-SECOND_NS, SECOND_NS),
                drift_ppm=random.randint(-200, 200),
                started_ns=random.randrange(10**12),
            )
            key = SigningKey.from_secret(random.randbytes(32)) if random.random() < 0.6 else None
            honest = not (shape.is_hostile and number == shape.nodes - 1)
            on_disk = shape.is_disk and honest and (number == 0 or random.random() < 0.5)
            node = Node(
                f"node{number}",
                clock=clock,
                vault=self._disk_vault(number) if on_disk else lambda _: MemoryVault(self._decided),
                choice=choice,
                key=key,
                honest=honest,
            )
            share = random.choice((0.1, 0.3, 0.6, 0.9)) if honest else 0.9
            for record in self._population.records:
                if random.random() < share:
                    node.put(record)
            nodes.append(node)
        return nodes

    def _disk_vault(self, number: int) -> Callable[[Query | None], Vault]:
        name = f"bobbin-interlace-{self.seed}-{number}"
        return lambda query: DiskVault(name, Random(self._random.getrandbits(64)), query)  # noqa: S311

    def _choose_policy(self) -> policies.Choice:
        return policies.choose(
            self._random, self._population.verifiers, [record.hash for record in self._population.records], proven=True
        )

    def _connect(self, number: int, *, weather: Weather, configs: tuple[Config, Config]) -> _Exchange:
        """Begin an exchange on a link."""
        random = Random(self._random.getrandbits(64))  # noqa: S311 (a seed is the point)
        pair = self._links[number]
        configs = (draw_sketching(self._strategies, configs[0]), draw_sketching(self._strategies, configs[1]))
        link: Link[Item] = Link(self._timeline, weather, random, truncate)
        ends: list[Endpoint] = []
        for node, config in zip(pair, configs, strict=True):
            holdings = node.vault.link(node.query)
            machine = InterlaceMachine(config, holdings)
            self.tally[f"strategy: {config.strategy}"] += 1
            witness = self._watch(node, config) if node.honest else None
            hostile = None if node.honest or not self._is_troubled else Hostile(random, self._population.records)
            if hostile is not None:
                self._tell(f"{node.name} is hostile: {hostile.names}")
                for vice in hostile.names:
                    self.tally[f"vice: {vice}"] += 1
            end = Endpoint(
                machine,
                node,
                holdings,
                timeline=self._timeline,
                random=random,
                witness=witness,
                trace=self._tell if self._is_traced else None,
                persist_ns_max=PERSIST_NS_MAX,
                tamper=hostile,
                on_failure=self._crash,
            )
            if witness is not None and isinstance(holdings, DiskHoldings):
                witness.has_recalled = _recalls(holdings)
            stream: Stream = MessageStream(machine)
            if self.circumstances.is_bytes:
                stream = ByteStream(machine, random, bytes if hostile is None else hostile.spoil)
            end.attach(link, len(ends), stream)
            ends.append(end)
        exchange = _Exchange(link, (ends[0], ends[1]), number=number)
        for one, another in ((ends[0], ends[1]), (ends[1], ends[0])):
            if one.witness is not None:
                one.witness.peer = another.witness
        self._exchanges.append(exchange)
        self.tally["exchanges"] += 1
        for end in ends:
            self._timeline.after(random.randrange(10 * MILLISECOND_NS), lambda end=end: end.give(Started()))  # type: ignore[misc]
        return exchange

    def _watch(self, node: Node, config: Config) -> Witness:
        return Witness(node, config, node.query_text, self._everything, self._fail, self._decided)

    def _parties(self, number: int) -> tuple[Party, Party]:
        one, another = (Party(verifier=None if node.key is None else node.key.verifier) for node in self._links[number])
        return one, another

    # ---- troubles -------------------------------------------------------------------------------------------------

    def _be_troubled(self) -> None:
        shape, random = self.circumstances, self._random
        for node in self.nodes:
            if isinstance(node.vault, DiskVault) and shape.has_faults:
                node.vault.set_faults(0.004, 0.004)
        for number in range(len(self._links)):
            self._timeline.after(random.randrange(MILLISECOND_NS), lambda number=number: self._reconnect(number))  # type: ignore[misc]
        for _ in range(shape.troubles):
            self._timeline.after(random.randrange(shape.window_ns), self._trouble)
        while self._timeline.step(shape.window_ns):
            self._count_step()
            # What happens while machines are at work matters most.
            if random.random() < shape.restlessness and self._troubles < TROUBLES_MAX:
                self._trouble()

    def _reconnect(self, number: int) -> None:
        """Begin an exchange with drawn circumstances; look now and then whether it is time for the next."""
        current = [exchange for exchange in self._exchanges if exchange.number == number and not exchange.is_over]
        if not self._is_troubled or (not current and self._begun[number] >= EXCHANGES_MAX):
            return
        if not current:
            self._begun[number] += 1
            one, another = self._parties(number)
            nodes, random, shape = self._links[number], self._random, self.circumstances
            first = draw_config(
                random,
                nodes[0].selector,
                own=one,
                peer=another,
                initiator=True,
                is_tight=shape.is_tight,
                cursor_key=self._cursor_keys[number],
            )
            second = draw_config(
                random,
                nodes[1].selector,
                own=another,
                peer=one,
                initiator=False,
                is_tight=shape.is_tight,
                cursor_key=self._cursor_keys[number],
            )
            weather = draw_weather(random, has_faults=shape.has_faults)
            self._connect(number, weather=weather, configs=(first, second))
        self._timeline.after(self._random.randint(20, 200) * MILLISECOND_NS, lambda: self._reconnect(number))

    def _trouble(self) -> None:
        """Something happens, somewhere."""
        random = self._random
        self._troubles += 1
        node = random.choice(self.nodes)
        running = [exchange for exchange in self._exchanges if not exchange.is_over]
        kinds = ["put", "put", "put", "remove", "lift", "operand"]
        if self.circumstances.has_faults:
            kinds += ["jump", "cancel", "break", "crash"]
        kind = random.choice(kinds)
        self.tally[kind] += 1
        self._tell(f"trouble: {kind} at {node.name}")
        try:
            self._happen(kind, node, running)
        except ResourceError as error:
            self._tell(f"{node.name} disk: {error}")
            self._crash(node)

    def _happen(self, kind: str, node: Node, running: list["_Exchange"]) -> None:
        random = self._random
        if kind == "put":
            absent = [record for record in self._population.records if record.hash not in node.records]
            # A record that the rules name changes most.
            named = [record for record in absent if record.hash in node.choice.selector]
            if absent:
                node.put(random.choice(named if named and random.random() < 0.5 else absent))
        elif kind in ("remove", "lift"):
            names = sorted(node.records) if kind == "remove" else sorted(node.refused)
            if names:
                (node.remove if kind == "remove" else node.lift)(random.choice(names))
        elif kind == "operand":
            self._change_operand(node)
        elif kind == "jump":
            node.clock.jump(random.choice((-20, -1, 1, 3, 20)) * SECOND_NS)
        elif kind == "crash":
            self._crash(node)
        elif running and kind == "cancel":
            random.choice(random.choice(running).ends).give(Cancelled())
        elif running:
            random.choice(running).link.break_off()

    def _change_operand(self, node: Node) -> None:
        node.change(self._choose_policy())
        for exchange in self._exchanges:
            for end in exchange.ends:
                if end.node is node and not end.is_over and not isinstance(end.machine.config.lifecycle, Bounded):
                    end.give(OperandChanged(node.selector))

    def _crash(self, node: Node) -> None:
        """The node's processes are gone; what was durable stays."""
        for exchange in self._exchanges:
            for end in exchange.ends:
                if end.node is node and not end.is_over:
                    end.crash()
        wrong = node.recover()
        self._expect(wrong is None, str(wrong))

    def _end_troubles(self) -> None:
        """Nothing happens any more. A bounded exchange comes to its end; one that would wait is told to."""
        self._is_troubled = False
        self._tell("the troubles end")
        for node in self.nodes:
            if isinstance(node.vault, DiskVault):
                node.vault.set_faults(0.0, 0.0)
        for exchange in self._exchanges:
            exchange.link.weather = structs.replace(CALM, items_max=exchange.items_max)
            for end in exchange.ends:
                if not end.is_over and end.machine.config.lifecycle != Bounded():
                    end.give(Cancelled())
        self._settle()
        for exchange in self._exchanges:
            self._expect_end(exchange)

    def _settle(self) -> None:
        """Let time pass until nothing is left to happen."""
        until = self._timeline.now_ns + PATIENCE_NS
        while any(not exchange.is_over for exchange in self._exchanges) and self._timeline.step(until):
            self._count_step()

    def _expect_end(self, exchange: _Exchange) -> None:
        for end in exchange.ends:
            machine = end.machine
            self._expect(end.is_over, f"{end.node.name} is in the phase {machine.phase} and never ends")
            if end.result is not None and end.witness is not None:
                self.tally[f"end: {end.result.reason or 'fixed point'}"] += 1
                self.tally["records received"] += len(end.result.received)
                self.tally.update(f"reconciled: {way}" for way in end.result.strategies)
                self.tally["fallbacks"] += len(end.result.fallbacks)
                self.tally["checked steps"] += end.witness.checks
                self.tally["fixed points"] += end.witness.fixed_points
                if exchange.is_honest:
                    self._expect_honest(end, exchange)
        if exchange.is_honest and not self.circumstances.is_bytes:
            most = max(direction.most_in_flight for direction in exchange.link.directions)
            self._expect(most <= exchange.items_max + AHEAD_MAX, f"{most} messages were on their way at once")

    def _expect_honest(self, end: Endpoint, exchange: _Exchange) -> None:
        """Nobody blames an honest peer: an end has a reason that this world has given."""
        assert end.result is not None
        reason = end.result.reason
        allowed = {None, Reason.LINK_LOST, Reason.CANCELLED, Reason.PHASE_TIMEOUT, Reason.CLOCK_SKEW}
        configs = [one.machine.config for one in exchange.ends]
        if self.circumstances.is_disk:
            allowed.add(Reason.STORE)
        if self.circumstances.is_tight:
            allowed |= _LIMITS
        if not all(one.node.choice.settles for one in exchange.ends) or self.tally["operand"]:
            allowed.add(Reason.LOOP_LIMIT)
        if all(config.parameters for config in configs) and configs[0].parameters != configs[1].parameters:
            allowed.add(Reason.PLAN_MISMATCH)
        if isinstance(end.machine.config.lifecycle, Bounded) and self.tally["operand"]:
            # The other side, an open one, has announced a new policy.
            allowed.add(Reason.OUT_OF_PHASE)
        self._expect(reason in allowed, f"{end.node.name} ended an honest exchange by {reason}: {end.result.detail}")

    # ---- calm -----------------------------------------------------------------------------------------------------

    def _calm_down(self) -> None:
        """Repeated exchanges lead to the fixed point that brute force finds."""
        honest = [number for number, pair in enumerate(self._links) if all(node.honest for node in pair)]
        if not honest:
            return
        for node in self.nodes:
            node.clock.set_right()
        before = {node.name: set(node.records) for node in self.nodes}
        for _ in range(CALM_PASSES_MAX):
            if not sum(self._exchange_calmly(number) for number in honest):
                break
        else:
            self._fail("calm exchanges go on for ever")
        self._expect_closed(honest, before)

    def _exchange_calmly(self, number: int) -> int:
        """One exchange to its end; returns how many records moved."""
        one, another = self._parties(number)
        nodes = self._links[number]
        key = self._cursor_keys[number]
        outright = self._random.choice((3, 256))
        configs = tuple(
            calm_config(
                node.selector, own=own, peer=peer, initiator=initiator, cursor_key=key, list_outright_max=outright
            )
            for node, own, peer, initiator in ((nodes[0], one, another, True), (nodes[1], another, one, False))
        )
        exchange = self._connect(number, weather=CALM, configs=(configs[0], configs[1]))
        self._settle()
        self._expect_end(exchange)
        settles = all(node.choice.settles for node in nodes)
        moved = 0
        for end in exchange.ends:
            assert end.result is not None, "an exchange that has ended has a result"
            good = end.result.fixed_point or (
                not settles and end.result.reason in (Reason.LOOP_LIMIT, Reason.LINK_LOST)
            )
            self._expect(good, f"a calm exchange ended by {end.result.reason}: {end.result.detail}")
            moved += len(end.result.received)
        self.tally["calm exchanges"] += 1
        return moved

    def _expect_closed(self, honest: list[int], before: dict[str, set[str]]) -> None:
        choices = [node.choice for number in honest for node in self._links[number]]
        if not all(choice.settles for choice in choices):
            return
        start_ns = {number: self._last_start(number) for number in honest}
        for number in honest:
            parties, nodes = self._parties(number), self._links[number]
            left = missing(nodes, parties, start_ns[number], self._decided)
            self._expect(not left, f"a fixed point that is none: {sorted(left)[:3]} could still move")
            self.tally["fixed points by brute force"] += 1
        if all(choice.is_monotone and not choice.is_timed for choice in choices):
            links = [(self._links[number], self._parties(number)) for number in honest]
            expected = close(links, before, self._everything, self._decided)
            for node in {id(node): node for pair, _ in links for node in pair}.values():
                self._expect(set(node.records) == expected[node.name], f"{node.name} does not hold the closure")
            self.tally["closures by brute force"] += 1

    def _last_start(self, number: int) -> str:
        last = [exchange for exchange in self._exchanges if exchange.number == number][-1]
        epoch = last.ends[0].machine.epoch
        assert epoch is not None, "a calm exchange has agreed on a plan"
        return epoch.terms.start_tai

    def _audit(self) -> None:
        """Every node holds what it was given and nothing else, whole and valid."""
        valid: set[str] = set()
        for node in self.nodes:
            if not node.honest:
                continue
            self._expect(set(node.records) == node.expected, f"{node.name} has lost or found records")
            for name, record in node.records.items():
                self._expect(record.raw == self._everything[name].raw, f"{name} came from nowhere")
                # Equal bytes are valid or not, whoever holds them.
                self._expect(
                    name in valid or validate(record.raw).hash == name, f"{name} is not what {node.name} holds"
                )
                valid.add(name)
            self._expect(not (set(node.records) & node.refused), f"{node.name} holds what it refuses")

    # ---- small parts ----------------------------------------------------------------------------------------------

    def _count_step(self) -> None:
        self._steps += 1
        self._expect(self._steps <= STEPS_MAX, f"after {STEPS_MAX} steps there is no end")

    def _tell(self, line: str) -> None:
        if not self._is_traced:
            return
        for node in self.nodes:
            if isinstance(node.vault, DiskVault):
                line = line.replace(node.vault.folder, node.name)
        self.trace.append(f"{self._timeline.now_ns / SECOND_NS:12.6f} {line}")

    def _expect(self, condition: bool, message: str) -> None:  # noqa: FBT001 (reads like an assertion)
        if not condition:
            self._fail(message)

    def _fail(self, message: str) -> NoReturn:
        self._tell(f"BROKEN: {message}")
        raise Broken(f"seed {self.seed}: {message}")
