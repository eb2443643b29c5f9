"""``bobbin stat``: sizes and counts."""

from typing import TYPE_CHECKING

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.freshness import freshen
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output
from bobbin.cli.text import count_text, size_text, utc_text

if TYPE_CHECKING:
    from bobbin.store.base import Stat


def stat(folder: LaceFolder, as_json: AsJson = False) -> ExitCode:
    """Show how much a lace holds.

    Instant at any size: the counts are kept, not counted.

    Example: bobbin stat notes.lace
    """
    from bobbin.lace import Lace
    from bobbin.records import tai

    out = Output(as_json=as_json)
    freshen(out, folder)
    with Lace.open(folder, read_only=True) as lace:
        now, settings, keys = lace.stat(), lace.settings, lace.key_names()
        account_keys = lace.account_keys.names()
    overflow = now.quarantine_overflow
    kinds = {kind.name.lower(): count for kind, count in now.records.items()}
    counts = [kinds.get(kind, 0) for kind in ("blob", "plex", "seal")]
    words = ", ".join(
        count_text(count, one, many)
        for count, one, many in zip(counts, ("Blob", "Plex", "Seal"), ("Blobs", "Plexes", "Seals"), strict=True)
    )
    rows = {
        "lace": f"{folder}, created {utc_text(tai.parse(settings.created))}",
        **({} if settings.lake is None else {"lake": settings.lake}),
        "records": f"{sum(counts):,} ({words})",
        "size": f"{size_text(now.record_bytes)} in records, {size_text(now.file_bytes)} on disk",
        "newest id": f"{now.high_water:,}",
        "quarantine": f"{now.quarantined:,}" + (f", and {overflow:,} only counted" if overflow else ""),
        "refusals": f"{now.refused:,}",
        **({"messages": _messages(now)} if now.messages or now.messages_waiting else {}),
        "keys": ", ".join(f"{name} (default)" if name == settings.default_key else name for name in keys) or "none",
        **({"accounts": f"keys {', '.join(account_keys)}"} if account_keys else {}),
    }
    out.result(
        {
            "lace": str(folder),
            "created": settings.created,
            **({} if settings.lake is None else {"lake": settings.lake}),
            "records": sum(counts),
            "kinds": dict(zip(("blob", "plex", "seal"), counts, strict=True)),
            "record_bytes": now.record_bytes,
            "file_bytes": now.file_bytes,
            "high_water": now.high_water,
            "quarantined": now.quarantined,
            "quarantine_overflow": overflow,
            "refused": now.refused,
            "messages": now.messages,
            "messages_erased": now.messages_erased,
            "messages_interop": now.messages_interop,
            "messages_lacking": now.messages_lacking,
            "messages_waiting": now.messages_waiting,
            "message_bytes": now.message_bytes,
            "schema_version": now.schema_version,
            "keys": keys,
            "account_keys": account_keys,
            "default_key": settings.default_key,
        },
        *(f"{out.style(f'{label:<10}', dim=True)}  {out.style(text)}" for label, text in rows.items()),
    )
    return ExitCode.OK


def _messages(now: "Stat") -> str:
    """The messages of tangles, and what is special about some."""
    parts = {
        "erased": now.messages_erased,
        "not proven": now.messages_interop,
        "waiting for others": now.messages_lacking,
        "more waiting as records": now.messages_waiting,
    }
    words = ", ".join(f"{count:,} {what}" for what, count in parts.items() if count)
    return f"{now.messages:,} of tangles, {size_text(now.message_bytes)}" + (f" ({words})" if words else "")
