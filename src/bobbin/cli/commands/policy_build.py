"""``bobbin policy build``: a policy for the ordinary case, without writing rules."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.text import utc_text
from bobbin.cli.times import FORMS, parse_time
from bobbin.errors import UsageError
from bobbin.records import coordinate, tai


def policy_build(
    groups: Annotated[
        list[str] | None,
        typer.Option(
            "--group", "-g", metavar="G", help="In this group; repeat for any of several.", show_default=False
        ),
    ] = None,
    apps: Annotated[
        list[str] | None,
        typer.Option("--app", "-a", metavar="A", help="Under this app; repeat for any.", show_default=False),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option("--name-prefix", metavar="N", help="With a name that begins with this.", show_default=False),
    ] = None,
    signers: Annotated[
        list[str] | None,
        typer.Option("--signer", metavar="V", help="Sealed by this verifier; repeat for any.", show_default=False),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="T", help=f"Dated at this time or later: {FORMS}.", show_default=False),
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="T", help="Dated before this time.", show_default=False)
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            "--last", metavar="SECONDS", help="No older than this at the time of exchange.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Write a policy that selects the records that meet all the conditions given.

    Without any condition it selects every record. Times in UTC are written into the policy as TAI. In
    Python there is more: membership and several selections (bobbin.policy.builder), unions (bobbin.policy.unite).

    Example: bobbin policy build --group ward --app notes --last 604800 > ward.policy
    """
    from bobbin.policy import builder
    from bobbin.policy.check import identify

    out = Output(as_json=as_json)
    conditions = []
    if groups:
        conditions.append(builder.group(*_paths("group", groups)))
    if apps:
        conditions.append(builder.app(*_paths("app", apps)))
    if prefix is not None:
        conditions.append(builder.name_prefix(_name_prefix(prefix)))
    if signers:
        conditions.append(builder.signer(*_distinct("signer", signers)))
    if after is not None:
        conditions.append(builder.after(after := parse_time(after)))
    if before is not None:
        conditions.append(builder.before(before := parse_time(before)))
    if after is not None and before is not None and tai.parse(before) <= tai.parse(after):
        raise UsageError(
            f"no record is dated both from {after} on and before {before} (TAI); nothing would be selected"
        )
    if last is not None:
        conditions.append(builder.last(last))
    text = builder.write(builder.select(*conditions))
    out.result({"identifier": identify(text), "text": text}, *map(out.style, text.splitlines()))
    for word, time in (("after", after), ("before", before)):
        if time is not None:
            out.note(f"{word} {time} (TAI) is {utc_text(tai.parse(time))}")
    return ExitCode.OK


def _distinct(word: str, values: list[str]) -> list[str]:
    for value in values:
        if values.count(value) > 1:
            raise UsageError(f"the {word} {value!r} is named twice; was another one meant?")
    return values


def _paths(word: str, values: list[str]) -> list[str]:
    """Names that a record can have: a condition on any other would never hold."""
    for value in values:
        if not value:
            raise UsageError(f"an empty {word} is no condition; leave it out")
        if fault := coordinate.fault(word, value):
            raise UsageError(f"no record is in it: {fault}")
    return _distinct(word, values)


def _name_prefix(prefix: str) -> str:
    if prefix and (fault := coordinate.fault("name", prefix.removesuffix("/"))):
        raise UsageError(f"no name begins like this: {fault}")
    return prefix
