"""The server of the API."""

import sys

LATE_MODULE = "python_multipart"
OTHER_NAME = "multipart"
# starlette loads it at its start wherever it is installed; here the first form does, see `forms.py`
for _name in (LATE_MODULE, OTHER_NAME):
    sys.modules.setdefault(_name, None)  # type: ignore[arg-type]
