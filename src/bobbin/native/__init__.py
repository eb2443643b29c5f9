"""The C library of the reactive protocol, and how Python reaches it.

The sources in this folder are plain C11 and need nothing but the C library. They are compiled when the package is built
or installed (``hatch_build.py`` in the repository), into this folder, beside the header ``lazily.h`` that programs in C
include. Where there was no compiler the library is absent, ``library()`` says so, and whatever uses it for speed uses
Python instead.
"""
