"""``bobbin peers``: who is known, with which key, and on which terms."""

import os
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Json, Output, not_found
from bobbin.cli.sources import STDIN, MissingFile, check_given
from bobbin.errors import BobbinError, UsageError

if TYPE_CHECKING:
    from bobbin.config.peers import PeerEntry, Peers
    from bobbin.records.ids import Verifier

PeersFile = Annotated[
    Path | None,
    typer.Option("--peers", metavar="FILE", help="Another file of known peers. Default: DIR/peers.toml."),
]
PeerName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the peer.", show_default=False)]


class ProfileChoice(StrEnum):
    """How much an exchange may cost."""

    DEFAULT = "default"
    LARGE = "large"


def _text(name: str, metavar: str, words: str) -> object:
    return typer.Option(name, metavar=metavar, help=words, show_default=False)


def _flag(name: str, words: str) -> object:
    return typer.Option(name, metavar="", help=words, show_default=False)


def peers_list(folder: LaceFolder, peers: PeersFile = None, as_json: AsJson = False) -> ExitCode:
    """List the known peers.

    Example: bobbin peers list notes.lace
    """
    out = Output(as_json=as_json)
    known = _read(folder, peers)
    rows = [*known.entries, *(() if known.anonymous is None else (known.anonymous,))]
    width = max((len(entry.name) for entry in rows), default=0)
    for entry in rows:
        who = _who(entry)
        words = "  ".join(out.style(text, dim=True) for text in _remarks(entry))
        out.row(_value(entry), f"{out.style(f'{entry.name:<{width}}', bold=True)}  {who}  {words}".rstrip())
    if not rows:
        out.note(f"nobody is known; make somebody known with: bobbin peers add {folder} NAME --verifier V.….H3")
    return ExitCode.OK


def peers_show(folder: LaceFolder, name: PeerName, peers: PeersFile = None, as_json: AsJson = False) -> ExitCode:
    """Show one known peer, its limits and the identifier of each policy.

    A policy that cannot be used is said, and ends the command with 1.

    Example: bobbin peers show notes.lace lab
    """
    import msgspec

    from bobbin.interlace.limits import Limits
    from bobbin.runtime.roster import ANONYMOUS

    out = Output(as_json=as_json)
    known = _read(folder, peers)
    entry = known.anonymous if name == ANONYMOUS else known.named(name)
    if entry is None:
        return not_found(out, f"there is no peer {name!r} in {known.file}")
    identifiers, problem = _identify(known, entry)
    value = _value(entry) | identifiers
    value |= {"limit_values": msgspec.to_builtins(entry.limits or Limits()), "problem": problem}
    if as_json:
        out.result(value)
    else:
        labels = {
            "peer": entry.name,
            "key": _who(entry),
            "address": ", ".join(str(way.address) for way in entry.ways) or "none",
            "certificate": ", ".join(_pins(entry)) or "none",
            "policy": _named_with(entry.policy, identifiers["policy_id"], "the default policy of the node"),
            "query policy": _named_with(entry.query_policy, identifiers["query_policy_id"], "the default one"),
            "limits": entry.profile or "default",
            "strategy": entry.strategy or "auto",
            "links": ", ".join(_ways(entry)),
        }
        out.result(
            None, *(f"{out.style(f'{label:<13}', dim=True)} {out.style(text)}" for label, text in labels.items())
        )
    if problem is not None:
        out.warn(problem)
        return ExitCode.NOT_ALL
    return ExitCode.OK


def peers_add(
    folder: LaceFolder,
    name: PeerName,
    verifier: Annotated[str | None, _text("--verifier", "V.….H3", "The key that it proves itself with.")] = None,
    unproven: Annotated[
        bool, _flag("--unproven", "Instead: exchange with whoever answers at the address, without proof.")
    ] = False,
    address: Annotated[
        list[str] | None, _text("--address", "ADDRESS", "Where it is dialled; several are tried in their order.")
    ] = None,
    certificate: Annotated[
        list[str] | None,
        _text(
            "--certificate", "SHA256", "The only certificate that its server may show: one, or one for each address."
        ),
    ] = None,
    policy: Annotated[Path | None, _text("--policy", "FILE", "Our policy towards it.")] = None,
    query_policy: Annotated[Path | None, _text("--query-policy", "FILE", "What its rules may see here.")] = None,
    limits: Annotated[ProfileChoice | None, _text("--limits", "PROFILE", "default or large.")] = None,
    follow: Annotated[bool, _flag("--follow", "Keep an open link to its address while the node runs.")] = False,
    no_admit: Annotated[bool, _flag("--no-admit", "Do not take links that it opens to us.")] = False,
    peers: PeersFile = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Make a peer known. A node that runs takes it up by itself.

    Without a policy of its own the node's default policy holds for it. A peer that is known is never changed: edit
    DIR/peers.toml, or remove it first. One that several machines keep, as a replicated lace, has several addresses.

    Example: bobbin peers add notes.lace lab --verifier V.….H3 --address tls:lab.example:4791 --policy lab.policy
    """
    from bobbin.config.enrolment import NewPeer, add_peer
    from bobbin.config.peers import make_ways, parse_address, parse_certificate

    out = Output(as_json=as_json)
    file = _file(folder, peers)
    if verifier is None and not unproven:
        raise UsageError("name its key with --verifier; its owner finds it with `bobbin key show`")
    if verifier is not None and unproven:
        raise UsageError("a peer either proves a key or proves nothing: --verifier or --unproven")
    key = None if verifier is None else _verifier(verifier)
    if key is not None and (own := _own_name(folder, key)) is not None:
        raise UsageError(
            f"that is this lace's own key {own!r}; the key of another is what `bobbin key show` prints there"
        )
    _check_policies(policy, query_policy)
    pins = [parse_certificate(text) for text in certificate or ()]
    new = NewPeer(
        name=name,
        verifier=key,
        ways=make_ways([parse_address(text) for text in address or ()], pins[0] if len(pins) == 1 else pins),
        policy=policy,
        query_policy=query_policy,
        limits=None if limits is None else limits.value,
        follow=follow,
        admit=not no_admit,
    )
    entry = add_peer(file, new)
    out.result(_value(entry), f"{name} is known")
    _warn_unread(out, folder, file)
    if policy is None:
        out.note(f"it has no policy of its own: the node's default holds, or name one in {file}")
    for remark in _policy_remarks(policy):
        out.warn(remark)
    return ExitCode.OK


def peers_remove(folder: LaceFolder, name: PeerName, peers: PeersFile = None, as_json: AsJson = False) -> ExitCode:
    """Forget a peer. A node that runs ends its links.

    Records that came from it stay.

    Example: bobbin peers remove notes.lace lab
    """
    from bobbin.config.enrolment import remove_peer

    out = Output(as_json=as_json)
    file = _file(folder, peers)
    check_given(peers)
    entry = remove_peer(file, name)
    if entry is None:
        return not_found(out, f"there is no peer {name!r} in {file}")
    out.result({"removed": name, "verifier": entry.verifier}, f"{name} is forgotten")
    _warn_unread(out, folder, file)
    return ExitCode.OK


def _warn_unread(out: Output, folder: Path, file: Path) -> None:
    """Say that the node of this lace reads another file, so that what was changed here is not in force there.

    Which file that is, the configuration of the node says, and only the node knows where that is.
    """
    from bobbin.cli.node_client import ask_links

    with suppress(BobbinError):  # where no node runs or answers, nothing is known of it
        read = ask_links(folder).peers_file
        if read is not None and os.path.realpath(file) != read:
            out.warn(
                f"the node that serves {folder} reads its peers from {read}, not from {file}; "
                f"to change what it goes by, say --peers {read}"
            )


def _file(folder: Path, peers: Path | None) -> Path:
    from bobbin.config.layout import Layout

    layout = Layout(folder)
    if not layout.is_lace():
        raise UsageError(f"there is no lace in {folder}")
    return layout.peers if peers is None else peers


def _read(folder: Path, peers: Path | None) -> "Peers":
    from bobbin.config.peers import read_peers

    file = _file(folder, peers)
    check_given(peers)
    return read_peers(file)


def _verifier(text: str) -> "Verifier":
    from bobbin.config.peers import parse_verifier

    return parse_verifier(text)


def _check_policies(policy: Path | None, query_policy: Path | None) -> None:
    from bobbin.cli.policy_files import load_query, load_selector

    if STDIN in (str(policy), str(query_policy)):
        raise UsageError("a policy that a node reads again is a file; stdin (-) is none")
    missing = []
    for file in (policy, query_policy):
        try:
            check_given(file)
        except MissingFile as error:
            missing.append(str(error))
    if missing:  # all that are, at once
        raise MissingFile("\n".join(missing))
    if policy is not None:
        load_selector(str(policy))
    if query_policy is not None:
        load_query(str(query_policy))


def _policy_remarks(policy: Path | None) -> list[str]:
    """What `bobbin policy check` remarks about a valid policy: above all that it lets nothing move."""
    from bobbin.cli.policy_files import read_policy
    from bobbin.policy.check import check
    from bobbin.policy.modules import Role

    if policy is None:
        return []
    return [f"{policy}:{one.place}: {one.message}" for one in check(read_policy(str(policy)), Role.SELECTOR).remarks]


def _own_name(folder: Path, verifier: "Verifier") -> str | None:
    """The name of the key of this lace that this is, if it is one."""
    from bobbin.config import keys
    from bobbin.config.layout import Layout

    kept = Layout(folder).keys
    for name in keys.key_names(kept):
        with suppress(BobbinError, OSError):  # a key that cannot be read is nobody's here
            if keys.load_key(kept, name).verifier == verifier:
                return name
    return None


def _identify(known: "Peers", entry: "PeerEntry") -> tuple[dict[str, Json], str | None]:
    """The identifiers of a peer's own policies, and what is wrong with them."""
    from bobbin.config.findings import Findings
    from bobbin.config.policies import Policies
    from bobbin.config.sources import Sources

    findings = Findings()
    policies = Policies(Sources(), findings)
    selector = query = None
    if entry.policy is not None:
        selector = policies.selector(entry.policy, file=known.file, key=f"{entry.key}, policy")
    if entry.query_policy is not None:
        query = policies.query(entry.query_policy, file=known.file, key=f"{entry.key}, query_policy")
    problem = None
    try:
        findings.raise_if_any()
    except BobbinError as error:
        problem = str(error)
    identifiers: dict[str, Json] = {
        "policy_id": None if selector is None else selector.identifier,
        "query_policy_id": None if query is None else query.identifier,
    }
    return identifiers, problem


def _is_anonymous(entry: "PeerEntry") -> bool:
    from bobbin.runtime.roster import ANONYMOUS

    return entry.name == ANONYMOUS


def _who(entry: "PeerEntry") -> str:
    if entry.verifier is not None:
        return entry.verifier
    return "(whoever proves nothing)" if _is_anonymous(entry) else "(whoever answers there)"


def _ways(entry: "PeerEntry") -> list[str]:
    ways = []
    if entry.follow:
        ways.append("followed")
    if entry.admit and (entry.verifier is not None or not entry.ways):
        ways.append("may dial us")
    return ways or ["dialled by commands only"]


def _remarks(entry: "PeerEntry") -> list[str]:
    remarks = [str(way.address) for way in entry.ways]
    remarks += [entry.policy or "(default policy)"]
    remarks += ["follow"] * entry.follow + ["no-admit"] * (not entry.admit)
    return remarks


def _pins(entry: "PeerEntry") -> list[str]:
    from bobbin.config.peers import certificate_text

    return [certificate_text(way.certificate) for way in entry.ways if way.certificate is not None]


def _named_with(written: str | None, identifier: Json, otherwise: str) -> str:
    if written is None:
        return otherwise
    return written if identifier is None else f"{written}  {identifier}"


def _value(entry: "PeerEntry") -> dict[str, Json]:
    addresses, pins = [str(way.address) for way in entry.ways], _pins(entry)
    return {
        "name": entry.name,
        "verifier": entry.verifier,
        "address": addresses[0] if addresses else None,
        "addresses": addresses,
        "certificate": pins[0] if pins else None,
        "certificates": pins,
        "policy": entry.policy,
        "query_policy": entry.query_policy,
        "limits": entry.profile,
        "strategy": entry.strategy,
        "follow": entry.follow,
        "admit": entry.admit,
        "anonymous": _is_anonymous(entry),
    }
