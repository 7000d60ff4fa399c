"""Record the AWS calls of the functions, and keep them in `recorded.json`.

Arguments are the beginnings of plays' names, such as `responses`: only those plays are recorded, and their calls are
added to the stored ones. A call that is no longer made stays until all plays are recorded.
"""

import sys

from tests.integration.rights.recorded import add, record, save

if __name__ == "__main__":
    if beginnings := tuple(sys.argv[1:]):
        add(record(lambda play: play.startswith(beginnings)))
    else:
        save(record())
