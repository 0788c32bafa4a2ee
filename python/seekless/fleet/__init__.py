"""Many machines: duplicates in the catalogues of many hosts, and the results of ``seekless bench`` on them.

The command ``seekless-fleet``; ``pip install 'seekless[fleet]'`` brings what it needs. Contents of files never come here: it reads
catalogues, which ``seekless dupes catalogue`` makes on each host, and what is done with duplicates is done there.
"""

from ._main import main

__all__ = ["main"]
