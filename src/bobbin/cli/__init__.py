"""The command line: one file a command, each of which parses, calls and prints."""

from bobbin.cli.app import app as app
from bobbin.cli.entry import main as main
