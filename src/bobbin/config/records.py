"""The records of a lace: in a store of its own folder, or in a lake that its settings name."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bobbin.config.layout import Layout
from bobbin.config.settings import FORMAT, Settings, write_settings
from bobbin.errors import UsageError
from bobbin.records import tai
from bobbin.store.base import DamagedStore, Store
from bobbin.store.sqlite import open_store


def create_records(
    layout: Layout, *, default_key: str, lake: str | Path | None, now: Callable[[], int]
) -> tuple[Settings, Store]:
    """Complete a lace in a folder that is made already: its store, or the lake, and then its settings."""
    settings = Settings(
        format=FORMAT,
        created=tai.render(now()),
        default_key=default_key,
        lake=None if lake is None else str(Path(lake).absolute()),
    )
    if lake is None:
        store: Store = open_store(layout.records, create=True, now=now)
    elif layout.records.exists():
        raise UsageError(f"{layout.records} holds records already; a lace over a lake has none of its own")
    else:
        store = _open_lake(layout, settings)
    try:
        if lake is None and store.stat().high_water:
            raise UsageError(f"{layout.records} holds records already, but {layout.settings} is missing")
        # Written last, and never over another: a folder with settings is a complete lace.
        write_settings(layout.settings, settings)
    except BaseException:
        store.close()
        raise
    with suppress(OSError):
        layout.clear_leftovers()
    return settings, store


def open_records(layout: Layout, settings: Settings, *, now: Callable[[], int], read_only: bool) -> Store:
    """The records of a lace whose settings are known."""
    if settings.lake is not None:
        return _open_lake(layout, settings)
    if not layout.records.is_file() or layout.records.stat().st_size == 0:
        raise DamagedStore(f"the lace in {layout.folder} is damaged: there is no store at {layout.records}")
    if not read_only and layout.cluster.is_dir():
        from bobbin.config.replicated import open_replicated  # noqa: PLC0415 -- most laces are on one machine

        return open_replicated(layout, now=now)
    return open_store(layout.records, now=now, read_only=read_only)


def _open_lake(layout: Layout, settings: Settings) -> Store:
    assert settings.lake is not None
    try:
        from bobbin.store.lake.store import open_lake_store  # noqa: PLC0415 -- most laces are over no lake
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the records of {layout.folder} are in a lake; reading one needs {error.name}, which is not installed: "
            "pip install 'bobbin[spark]'"
        ) from error
    return open_lake_store(layout.folder / settings.lake)
