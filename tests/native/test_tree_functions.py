"""The functions of ``content_tree.h`` and ``merkle.h``, called with whatever a program in C might give them."""

import ctypes
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Barrier, Thread
from time import monotonic, sleep

import pytest

import bobbin.native.content_tree as native
from bobbin.cluster.content_tree import EMPTY, TreeDraft
from bobbin.errors import ResourceError, UsageError
from bobbin.native.content_tree import NativeContentTree, Pieces, TreeStatus, form_of, tree_functions
from tests.support.content_trees import names_of_place, slow_top

_GONE = (1 << 64) - 1


@dataclass(kw_only=True)
class _Given:
    """What a function of the library is given; all of it may be wrong."""

    count: int = 2
    names: bytes | None = b"ab"
    names_bytes: int = 2
    name_lengths: Sequence[int] | None = (1, 1)
    contents: bytes | None = b"123"
    contents_bytes: int = 3
    content_lengths: Sequence[int] | None = (1, 2)
    form: ctypes.Structure | None = None
    is_quick: int = 1

    def to(self, function: str, *before: object, is_heard: bool = True) -> TreeStatus:
        if function.endswith("update"):
            before = (*before, self.is_quick)
        lengths = (self.name_lengths, self.content_lengths)
        arrays = [None if numbers is None else array("Q", numbers) for numbers in lengths]
        addresses = [None if numbers is None else numbers.buffer_info()[0] for numbers in arrays]
        out = (ctypes.c_char * len(EMPTY))()
        names = (self.count, self.names, self.names_bytes, addresses[0])
        contents = (self.contents, self.contents_bytes, addresses[1])
        called = getattr(tree_functions().holding, function)
        return TreeStatus(called(*before, *names, *contents, ctypes.byref(out) if is_heard else None))


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (_Given(), TreeStatus.OK),
        (_Given(count=0, names=None, names_bytes=0, contents=None, contents_bytes=0), TreeStatus.OK),
        (_Given(count=0, names=b"", names_bytes=0, name_lengths=None, contents_bytes=0), TreeStatus.OK),
        (_Given(names=None, names_bytes=0, name_lengths=(0, 0)), TreeStatus.OK),
        (_Given(contents=None, contents_bytes=0, content_lengths=(0, _GONE)), TreeStatus.OK),
        (_Given(content_lengths=(3, _GONE)), TreeStatus.OK),
        (_Given(form=form_of(b"", b"")), TreeStatus.OK),
        (_Given(count=1), TreeStatus.INVALID),
        (_Given(names_bytes=1), TreeStatus.INVALID),
        (_Given(names_bytes=3), TreeStatus.INVALID),
        (_Given(contents_bytes=2), TreeStatus.INVALID),
        (_Given(contents_bytes=4), TreeStatus.INVALID),
        (_Given(names=None), TreeStatus.INVALID),
        (_Given(contents=None), TreeStatus.INVALID),
        (_Given(name_lengths=None), TreeStatus.INVALID),
        (_Given(content_lengths=None), TreeStatus.INVALID),
        (_Given(name_lengths=(2, _GONE)), TreeStatus.INVALID),
        (_Given(name_lengths=(3, _GONE)), TreeStatus.INVALID),
        # These wrap around: modulo 2^64 their sum is right.
        (_Given(name_lengths=(_GONE - 1, 4)), TreeStatus.INVALID),
        (_Given(content_lengths=(_GONE - 1, 5)), TreeStatus.INVALID),
        (_Given(content_lengths=(1 << 32, 3)), TreeStatus.INVALID),
        (_Given(form=native._Form(None, 1, b"", 0)), TreeStatus.INVALID),
        (_Given(form=native._Form(b"", 0, None, 1)), TreeStatus.INVALID),
        (_Given(form=native._Form(None, 0, None, 0)), TreeStatus.OK),
    ],
)
def test_lengths_that_are_not_those_of_the_bytes(given: _Given, status: TreeStatus) -> None:
    tree = NativeContentTree()
    draft = tree.draft()
    assert given.to("bobbin_tree_draft_update", draft.handle, given.form) is status
    assert given.to("bobbin_tree_update", tree._handle, given.form) is status
    assert len(tree) == 0 or status is TreeStatus.OK
    if status is TreeStatus.INVALID:
        assert given.to("bobbin_merkle_root", given.form, b"", 0) is status


def test_null_pointers_are_a_status() -> None:
    tree = NativeContentTree()
    draft = tree.draft()
    functions = tree_functions().holding
    given, null = _Given(), TreeStatus.NULL_POINTER
    assert given.to("bobbin_tree_update", None, None) is null
    assert given.to("bobbin_tree_update", tree._handle, None, is_heard=False) is null
    assert given.to("bobbin_tree_draft_update", None, None) is null
    assert given.to("bobbin_tree_draft_update", draft.handle, None, is_heard=False) is null
    assert (
        functions.bobbin_tree_merge(None, draft.handle, 0) == functions.bobbin_tree_merge(tree._handle, None, 0) == null
    )
    assert functions.bobbin_tree_draft_settle(None) == null
    assert functions.bobbin_tree_draft_new(None, None) is None
    assert functions.bobbin_tree_contains(None, b"a", 1) == functions.bobbin_tree_contains(tree._handle, None, 1) == 0
    assert functions.bobbin_tree_len(None) == 0
    functions.bobbin_tree_free(None)
    functions.bobbin_tree_draft_free(None)
    assert (tree.top, draft.top) == (EMPTY, EMPTY)


def test_the_library_has_its_own_eye_on_drafts() -> None:
    """Whatever the class in Python knows of them."""
    tree = NativeContentTree()
    draft, stale = tree.draft(), tree.draft()
    assert _Given().to("bobbin_tree_draft_update", draft.handle, None) is TreeStatus.OK
    assert _Given().to("bobbin_tree_draft_update", draft.handle, None) is TreeStatus.USED
    assert _Given(content_lengths=(2, 1)).to("bobbin_tree_draft_update", stale.handle, None) is TreeStatus.OK
    same = tree.draft()
    for status in (TreeStatus.OK, TreeStatus.USED):  # though they change nothing
        assert (
            _Given(contents_bytes=0, content_lengths=(_GONE, _GONE)).to("bobbin_tree_draft_update", same.handle, None)
            is status
        )
    merge = tree_functions().holding.bobbin_tree_merge
    assert merge(tree._handle, draft.handle, 1) == TreeStatus.OK
    assert merge(tree._handle, draft.handle, 1) == merge(tree._handle, stale.handle, 0) == TreeStatus.STALE
    assert len(tree) == 2


def test_a_quick_update_that_cannot_be_quick_changes_nothing() -> None:
    """Too many changes to begin with, or too much in one bucket, where some others were looked at before."""
    tree = NativeContentTree()
    draft = tree.draft()
    many = [b"%d" % number for number in range(33_000)]
    piled = [*many[:100], *names_of_place(0xFFFF, 300)]
    for names in (many, piled):
        for function, handle in (("tree_update", tree._handle), ("tree_draft_update", draft.handle)):
            called = getattr(tree_functions().holding, f"bobbin_{function}")
            with pytest.raises(ResourceError, match="takes long") as raised:
                Pieces(names, names).given_to(called, handle, None, 1)
            assert raised.value.retry
    assert len(tree) == 0
    draft.update((name, name) for name in piled)
    tree.merge(draft)
    assert tree.top == slow_top(dict(zip(piled, piled, strict=True)))


# ---- threads --------------------------------------------------------------------------------------------------------


def _at_once(work: Callable[[int], None], threads: int = 4) -> None:
    """Does some work in several threads; an error in one of them is raised here."""
    errors: list[BaseException] = []
    start = Barrier(threads)

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 # it is raised again
            errors.append(error)

    running = [Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]


def test_several_threads_with_a_tree_each() -> None:
    tops = {}

    def work(thread: int) -> None:
        tree = NativeContentTree()
        on: TreeDraft | None = None
        for first in range(0, 3_000, 300):  # short updates hold the interpreter, and the long one does not
            on = tree.draft(on)
            on.update((b"%d" % number, b"%d" % first) for number in range(first, first + 400))
        tree.update([(b"%d" % number, b"") for number in range(2_500)])
        tops[thread] = EMPTY if on is None else on.top, tree.top

    _at_once(work)
    assert len(tops) == 4
    contents = {b"%d" % number: b"%d" % min(2_700, number // 300 * 300) for number in range(3_100)}
    assert set(tops.values()) == {(slow_top(contents), slow_top({b"%d" % number: b"" for number in range(2_500)}))}


def test_several_threads_change_one_tree() -> None:
    """An update is one piece: none is told that the tree has become another one meanwhile."""
    functions = tree_functions().yielding
    handle = functions.bobbin_tree_new()

    def work(thread: int) -> None:
        for first in range(0, 1_000, 50):
            names = [b"%d %d" % (thread, number) for number in range(first, first + 50)]
            Pieces(names, names).given_to(functions.bobbin_tree_update, handle, None, 0)
            assert functions.bobbin_tree_contains(handle, names[0], len(names[0]))

    try:
        _at_once(work)
        assert functions.bobbin_tree_len(handle) == 4_000
        names = [b"%d %d" % (thread, number) for thread in range(4) for number in range(1_000)]
        top = Pieces([b"0 0"], [b"0 0"]).given_to(functions.bobbin_tree_update, handle, None, 0)
        assert top == slow_top(dict(zip(names, names, strict=True)))
    finally:
        functions.bobbin_tree_free(handle)


def test_of_several_threads_one_changes_a_draft() -> None:
    tree = NativeContentTree()
    draft = tree.draft()
    function = tree_functions().yielding.bobbin_tree_draft_update
    tops, refused = [], []

    def work(thread: int) -> None:
        try:
            tops.append(Pieces([b"a"] * 500, [b"%d" % thread] * 500).given_to(function, draft.handle, None, 0))
        except UsageError as error:
            refused.append(error)

    _at_once(work)
    assert len(tops) == 1
    assert len(refused) == 3
    assert tops[0] in {slow_top({b"a": b"%d" % thread}) for thread in range(4)}


def test_nothing_holds_the_interpreter_while_a_tree_is_busy() -> None:
    """One thread makes a long update. Others make drafts, of its tree and of another one, and this one just goes on.

    Whoever waits for the update must not keep the others from running: no gap is nearly as long as the update.
    """
    busy, other = NativeContentTree(), NativeContentTree()
    names = names_of_place(3, 40_000)
    many = Pieces(names, names)
    seconds: list[float] = []

    def update() -> None:
        began = monotonic()
        many.given_to(tree_functions().yielding.bobbin_tree_update, busy._handle, None, 0)
        seconds.append(monotonic() - began)

    def draft(tree: NativeContentTree) -> None:
        while not seconds:
            drafted = tree.draft()
            drafted.update([(b"a", b"1")])
            tree.draft(drafted).update([(b"a", None)])
            sleep(0.001)

    def merge() -> None:
        while not seconds:
            with suppress(UsageError):  # the tree may have become another one since
                busy.merge(busy.draft())
            sleep(0.001)

    works = (update, partial(draft, busy), partial(draft, other), merge)
    threads = [Thread(target=work) for work in works]
    last, gap = monotonic(), 0.0
    for thread in threads:
        thread.start()
    while not seconds:
        sleep(0.001)
        now = monotonic()
        last, gap = now, max(gap, now - last)
    for thread in threads:
        thread.join()
    assert len(busy) == 40_000
    assert gap < seconds[0] / 2
