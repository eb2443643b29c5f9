"""The sheet asks for nothing, and knows every colour in light and in dark."""

import re

from bobbin.pipeline.report.style import SHEET


def test_every_colour_that_is_used_is_set_in_light_and_in_dark() -> None:
    used = set(re.findall(r"var\((--\w+)\)", SHEET))
    light, dark = (set(re.findall(r"(--\w+):", block)) for block in re.findall(r":root\{([^}]*)\}", SHEET))
    assert used <= light
    assert dark == light - {"--none"}


def test_nothing_is_loaded_and_braces_match() -> None:
    assert not re.search(r"url\(|@import|@font-face|</", SHEET)
    assert SHEET.count("{") == SHEET.count("}")
