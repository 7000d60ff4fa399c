"""The folder `functions` of a checkout as `turnstone.functions`, the name under which the wheel holds it."""

from pathlib import Path

__path__ = [str(Path(__file__).resolve().parents[2] / "functions")]
