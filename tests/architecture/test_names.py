"""Names that say nothing attract everything; none of them is used for a module or a folder."""

import re

from tests.architecture.source_tree import SOURCE, source_modules

_EMPTY_NAME = re.compile(r"(^|_)(util|utils|common|helper|helpers|misc|manager|managers)(_|$)")


def test_no_module_or_folder_has_an_empty_name() -> None:
    empty = [
        module.place
        for module in source_modules()
        if any(_EMPTY_NAME.search(part) for part in module.path.relative_to(SOURCE).with_suffix("").parts)
    ]
    assert empty == []
