"""``python -m seekless`` is the command ``seekless``."""

import os
import sys

from ._command import command


def main() -> None:
    """Become the command."""
    program = command()
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
