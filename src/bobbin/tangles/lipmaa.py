"""The long way back: which depth, besides the one just above, a message also refers to (the function of Bamboo).

Numbers from 1 on are laid out in spans of 1, 4, 13, 40, … numbers, each three times the one before and one more. The
last number of a span links back by a power of three, past two of the three parts; every other one by the largest span
that it is the end of a copy of. Following these links, any message reaches the root in steps whose number grows with
the logarithm of its depth, so a short trail is enough to prove that a late message belongs to the tangle.
"""


def lipmaa(number: int) -> int:
    """The number before ``number``, counted from 1, that it links back to."""
    spans = [1]
    while spans[-1] < number:
        spans.append(3 * spans[-1] + 1)
    if spans.pop() == number:
        return number - (2 * number + 1) // 3
    rest = number
    # A span of one ends everywhere, so this comes to an end.
    while rest := rest % spans[-1]:
        spans.pop()
    return number - spans[-1]


def lipmaa_depth(depth: int) -> int:
    """The depth whose messages a message at ``depth`` also names; the root has depth 0."""
    return lipmaa(depth + 1) - 1
