"""``bobbin policy test``: the cases of policies."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Json, Output
from bobbin.cli.policy_files import (
    InvalidPolicyFile,
    Mistake,
    load_query,
    load_selector,
    read_policy,
    shown_name,
    texts_of,
)
from bobbin.cli.sources import STDIN, check_files
from bobbin.cli.text import count_text
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.policy.cases import CaseFile, CaseResult
    from bobbin.policy.executables import Part
    from bobbin.policy.modules import Query, Selector

_SUFFIX: Final = ".cases"


def policy_test(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Files of cases; - for stdin.", show_default=False)
    ],
    full: Annotated[
        bool, typer.Option("--full", metavar="", help="Do not shorten hashes in explanations.", show_default=False)
    ] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Run the cases of policies: records in, decisions expected.

    A file names its policies by lines before the first case (policy, peer policy, query policy), relative to itself.
    Without the first one, X.policy.cases is about X.policy. Without a peer policy, the peer gives and takes
    everything. Each record that fares otherwise than expected is explained.

    Example: bobbin policy test ward.policy.cases
    """
    from bobbin.policy.cases import run_cases

    out = Output(as_json=as_json)
    check_files(files)
    loaded = [(file, *_load(file)) for file in files]  # everything is read before anything runs
    passed = failed = 0
    for file, cases, texts, own, peer, query in loaded:
        for result in run_cases(cases, own, peer=peer, query=query):
            passed, failed = passed + result.passed, failed + (not result.passed)
            out.row(_value(file, result), *_lines(out, file, result, texts, full=full))
    out.result(
        {"event": "summary", "files": len(files), "cases": passed + failed, "passed": passed, "failed": failed},
        f"{count_text(passed + failed, 'case')}: {passed} passed, {failed} failed",
    )
    return ExitCode.NOT_ALL if failed else ExitCode.OK


def _load(file: str) -> "tuple[CaseFile, dict[Part, str], Selector, Selector | None, Query | None]":
    from bobbin.policy.cases import MalformedCases, parse_cases

    try:
        cases = parse_cases(_text(file))
    except MalformedCases as error:
        message = str(error).removeprefix(f"line {error.line}: ")
        raise InvalidPolicyFile(
            file, [Mistake(file=shown_name(file), line=error.line, column=1, message=message)]
        ) from error
    folder = Path() if file == STDIN else Path(file).parent
    if cases.policy is not None:
        own = str(folder / cases.policy)
    elif file.endswith(_SUFFIX):
        own = file.removesuffix(_SUFFIX)
    else:
        raise UsageError(f"{shown_name(file)} does not say which policy it is about; begin it with 'policy: FILE'")
    peer = None if cases.peer_policy is None else str(folder / cases.peer_policy)
    query = None if cases.query_policy is None else str(folder / cases.query_policy)
    return (
        cases,
        texts_of(own, peer, query),
        load_selector(own),
        None if peer is None else load_selector(peer),
        None if query is None else load_query(query),
    )


def _text(file: str) -> str:
    raw = read_policy(file)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        mistake = Mistake(
            file=shown_name(file), line=line, column=column, message="this is not UTF-8", fix="save the file as UTF-8"
        )
        raise InvalidPolicyFile(file, [mistake]) from error


def _lines(out: Output, file: str, result: "CaseResult", texts: "dict[Part, str]", *, full: bool) -> list[str]:
    from bobbin.policy.narrate import narrate

    mark = out.style("ok    ", fg="green") if result.passed else out.style("failed", fg="red", bold=True)
    lines = [f"{mark}  {out.style(f'{shown_name(file)}:{result.line}')}  {out.style(result.title)}"]
    for surprise in result.surprises:
        lines.append(out.style(f"  {surprise.record} was {surprise.actual}, not {surprise.expected}", bold=True))
        told = narrate(surprise.verdict, full=full, texts=texts)
        lines += [out.style(f"    {line}".rstrip()) for line in told.splitlines()]
    return lines


def _value(file: str, result: "CaseResult") -> dict[str, Json]:
    import msgspec

    return {
        "event": "case",
        "file": shown_name(file),
        "line": result.line,
        "case": result.title,
        "passed": result.passed,
        "surprises": [msgspec.to_builtins(surprise) for surprise in result.surprises],
    }
