"""``bobbin tangle new``: begin an account, a feed or a thread."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output
from bobbin.cli.tangle_options import (
    KEY_DEFAULT,
    AccountOption,
    DataFile,
    DataOption,
    DomainOption,
    KeyOption,
    advising,
    load_key,
    read_data,
    resolve,
)
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.lace import Lace
    from bobbin.tangles.keys import Keypair


class KindChoice(StrEnum):
    """What a tangle can be."""

    ACCOUNT = "account"
    FEED = "feed"
    THREAD = "thread"


def tangle_new(
    folder: LaceFolder,
    kind: Annotated[
        KindChoice, typer.Argument(metavar="account|feed|thread", help="What to begin.", show_default=False)
    ],
    file: DataFile = None,
    data: DataOption = None,
    domain: DomainOption = None,
    account: AccountOption = None,
    key: KeyOption = KEY_DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Begin a tangle and print its id.

    An account is a tangle that says which keys may speak for somebody. A feed is what an account writes under one
    domain; its id follows from those two. A thread begins with a message that others reply to. An account that the key
    has begun, and a feed that exists, are found and not made again.

    Examples: bobbin tangle new notes.lace account · bobbin tangle new notes.lace feed --domain post
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    with Lace.open(folder) as lace:
        content = read_data(data, file) if kind is KindChoice.THREAD else None
        keypair = load_key(lace, key)
        owner = None if account in (None, "any") else resolve(lace, str(account), option="--account")
        found = None
        with advising(lace):
            match kind:
                case KindChoice.ACCOUNT:
                    _refuse(kind, file=file, data=data, account=account)
                    found = lace.tangles.account_begun_by(keypair, subdomain=domain or "person")
                    id = found or lace.tangles.new_account(keypair, subdomain=domain or "person").id
                case KindChoice.FEED:
                    _refuse(kind, file=file, data=data)
                    id = _feed(lace, keypair, domain, owner)
                case KindChoice.THREAD:
                    assert content is not None, "a thread begins with data"
                    speaker = "any" if account == "any" else owner
                    id = lace.tangles.post(keypair, content, account=speaker, domain=domain or "post").id
                case _:
                    assert_never(kind)
    out.result({"tangle": id, "kind": kind.value}, id)
    if found is not None:
        out.note(f"the key {key!r} has this account already; another one needs another key, or another --domain")
    if kind is KindChoice.THREAD:
        out.note(f"to get replies: bobbin tangle goal {folder} {id} all")
    return ExitCode.OK


def _feed(lace: "Lace", key: "Keypair", domain: str | None, account: str | None) -> str:
    if domain is None:
        raise UsageError("a feed has a domain: --domain post")
    return lace.tangles.feed(key, domain, account=account)


def _refuse(kind: KindChoice, **given: str | None) -> None:
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"--{name}: the root of a tangle of the kind {kind.value} takes none")
