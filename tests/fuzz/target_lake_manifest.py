"""Manifests of a lake: any bytes are a manifest that names only files of its table, or are refused by name."""

from bobbin.store.lake import manifest
from bobbin.store.lake.errors import DamagedLake, OtherVersion


def one_input(data: bytes) -> None:
    try:
        found = manifest.decode(data, where="here")
    except (DamagedLake, OtherVersion) as refused:
        assert str(refused).startswith("here ")  # noqa: PT017 -- no test of pytest's
        return
    assert manifest.decode(manifest.encode(found), where="here", table=found.table) == found
    assert found.rows == sum(file.rows for file in found.files)
    for file in found.files:
        assert file.path.startswith(f"{found.table}/data/")
        assert not {"", ".", ".."} & set(file.path.split("/"))
