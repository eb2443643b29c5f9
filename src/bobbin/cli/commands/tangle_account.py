"""``bobbin tangle account``: which keys may speak for somebody, and how that changes."""

from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Json, Output, not_found
from bobbin.cli.tangle_options import KEY_DEFAULT, AccountOption, KeyOption, advising, load_key, opened, resolve
from bobbin.errors import BobbinError, UsageError

if TYPE_CHECKING:
    from bobbin.lace import Lace
    from bobbin.tangles.keys import Keypair

PublicOrName = Annotated[
    str,
    typer.Argument(metavar="KEY", help="A public key, or the name of an account key of this lace.", show_default=False),
]


def tangle_account_show(
    folder: LaceFolder,
    account: Annotated[
        str | None, typer.Argument(metavar="ACCOUNT", help="Default: the one of --key.", show_default=False)
    ] = None,
    key: Annotated[str, typer.Option("--key", metavar="NAME", help="Whose account, if none is named.")] = KEY_DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Show the keys of an account: those that may speak for it now, as far as that is proven.

    Beside each stand the powers that it has over the account itself, add and del, and its name if it is a key of this
    lace. Without an account it is the one that the key belongs to.

    Example: bobbin tangle account show notes.lace
    """
    out = Output(as_json=as_json)
    with opened(folder) as lace:
        with advising(lace):
            id = resolve(lace, account) if account else lace.tangles.account_with(load_key(lace, key))
        if lace.tangles.proven(id).root is None or id not in lace.tangles.accounts():
            return not_found(out, f"there is no account {id} in {folder}")
        names, keys = _names(lace), lace.tangles.powers_of(id)
    value: dict[str, Json] = {
        "account": id,
        "keys": [{"public": one, "powers": sorted(keys[one]), "name": names.get(one)} for one in sorted(keys)],
    }
    lines = [
        f"{out.style(f'{one:<44}')}  {out.style(', '.join(sorted(keys[one])) or 'signs only', dim=True)}"
        + (f"  {out.style(f'key {names[one]} of this lace', fg='green')}" if one in names else "")
        for one in sorted(keys)
    ]
    out.result(value, f"{out.style('account', dim=True)}  {out.style(id, bold=True)}", *lines)
    return ExitCode.OK


def tangle_account_consent(
    folder: LaceFolder,
    account: Annotated[str, typer.Argument(metavar="ACCOUNT", help="Id of the account, whole.", show_default=False)],
    key: Annotated[str, typer.Option("--key", metavar="NAME", help="The key that agrees.")] = KEY_DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Let a key of this lace agree to be added to an account, and print what `account add` wants to see.

    For a key on another machine: this command runs where the new key is, `account add` where the account is. Nothing
    is changed here, and what is printed is no secret.

    Example: bobbin tangle account consent phone.lace 8hS6…
    """
    from bobbin.lace import Lace
    from bobbin.tangles.accounts import consent
    from bobbin.tangles.message import is_message_id

    out = Output(as_json=as_json)
    if not is_message_id(account):
        raise UsageError(f"{account[:80]!r} is not the id of an account; here it has to be whole")
    with Lace.open(folder, read_only=True) as lace:
        keypair = load_key(lace, key)
    agreed = consent(keypair, account)
    out.result({"account": account, "public": keypair.public, "consent": agreed}, f"{keypair.public} {agreed}")
    return ExitCode.OK


def tangle_account_add(
    folder: LaceFolder,
    new: PublicOrName,
    consent: Annotated[
        str | None,
        typer.Argument(metavar="CONSENT", help="What `account consent` has printed for it.", show_default=False),
    ] = None,
    powers: Annotated[
        list[str] | None,
        typer.Option("--power", metavar="add|del", help="Let it add or remove keys; repeat for both."),
    ] = None,
    account: AccountOption = None,
    key: KeyOption = KEY_DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Let another key speak for an account, and print the id of the message that says so.

    A key of this lace is given by its name, and agrees by being here. A key elsewhere is given by its public half with
    what `bobbin tangle account consent` has printed there. The key that signs must have the power to add.

    Examples: bobbin tangle account add notes.lace laptop --power add · bobbin tangle account add notes.lace 9eR… 3kD…
    """
    from bobbin.lace import Lace
    from bobbin.tangles.accounts import consent as agree

    out = Output(as_json=as_json)
    with Lace.open(folder) as lace:
        signer, id = _signer(lace, key, account)
        own = load_key(lace, new) if new in lace.account_keys.names() else None
        public = _public(new) if own is None else own.public
        agreed = consent if own is None else agree(own, id)
        if agreed is None:
            raise UsageError(
                f"the key {public} must agree: where it is kept, bobbin tangle account consent DIR {id} prints CONSENT"
            )
        message = lace.tangles.add_public(signer, id, public, consent=agreed, powers=powers)
    out.result({"id": message.id, "account": id, "public": public, "powers": sorted(powers or ())}, message.id)
    return ExitCode.OK


def tangle_account_del(
    folder: LaceFolder,
    gone: PublicOrName,
    account: AccountOption = None,
    key: KeyOption = KEY_DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Let a key no longer speak for an account, and print the id of the message that says so.

    What it has signed before stays good. The key that signs must have the power to remove. The last key with the power
    to add is not removed: nobody could ever add one again. The key file here, if there is one, is left alone.

    Example: bobbin tangle account del notes.lace 9eR…
    """
    from bobbin.lace import Lace
    from bobbin.tangles.accounts import Act

    out = Output(as_json=as_json)
    with Lace.open(folder) as lace:
        signer, id = _signer(lace, key, account)
        public = load_key(lace, gone).public if gone in lace.account_keys.names() else _public(gone)
        keys = lace.tangles.powers_of(id)
        if public not in keys:
            return not_found(out, f"the account {id} has no key {public}")
        if not any(Act.ADD in powers for one, powers in keys.items() if one != public):
            raise UsageError(f"{public} is the last key that may add keys to the account {id}; add another one first")
        message = lace.tangles.remove_key(signer, id, public)
    out.result({"id": message.id, "account": id, "public": public}, message.id)
    return ExitCode.OK


def _signer(lace: "Lace", key: str, account: str | None) -> "tuple[Keypair, str]":
    """The key that signs, and the account that it changes."""
    lace.tangles.refresh()
    signer = load_key(lace, key)
    with advising(lace):
        found = lace.tangles.account_with(signer) if account is None else resolve(lace, account, option="--account")
    if found not in lace.tangles.accounts():
        raise UsageError(f"--account: there is no account {found} in {lace.path}")
    return signer, found


def _public(text: str) -> str:
    from bobbin.tangles import keys
    from bobbin.tangles.errors import MalformedText

    try:
        keys.public_bytes(text)
    except MalformedText as error:
        raise UsageError(
            f"{text[:80]!r} is neither an account key of this lace nor a public key (base58 of 32 bytes)"
        ) from error
    return text


def _names(lace: "Lace") -> dict[str, str]:
    """The account keys of this lace, by their public halves. One that cannot be read has no name here."""
    names: dict[str, str] = {}
    for name in lace.account_keys.names():
        try:
            names[lace.account_keys.load(name).public] = name
        except BobbinError:
            continue
    return names
