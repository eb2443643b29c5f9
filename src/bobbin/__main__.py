"""``python -m bobbin``: the command line, where the ``bobbin`` script is not on the path."""

from bobbin.cli import main

if __name__ == "__main__":
    main()
