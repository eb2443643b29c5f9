"""A function fits a screen, a file can be read in one go. The house aims at 70 and 500 lines; past these it fails."""

from tests.architecture.source_tree import repository_modules

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 80


def test_files_are_short_enough_to_read() -> None:
    lengths = {module.place: len(module.text.splitlines()) for module in repository_modules()}
    assert {place: lines for place, lines in lengths.items() if lines > FILE_LINES_MAX} == {}


def test_functions_fit_a_screen() -> None:
    long = {
        f"{module.place}:{function.lineno} {function.name}": length
        for module in repository_modules()
        for function in module.functions()
        if (length := (function.end_lineno or function.lineno) - function.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert long == {}
