"""How many examples a property gets: a multiple of what the profile says, so that `make evidence` searches longer."""

from hypothesis import settings


def scaled(factor: float) -> settings:
    """The active profile with ``factor`` times its examples."""
    return settings(max_examples=max(1, round(settings().max_examples * factor)))
