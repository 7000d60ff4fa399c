"""Write the pages of the documentation that are generated: `make docs`."""

from tests.beside.reasons import reference as differences
from tests.docs.api_reference import PAGE, reference
from tests.docs.pages import ROOT

GENERATED = {PAGE: reference, "docs/reference/llama-stack-differences.md": differences}

if __name__ == "__main__":
    for name, generate in GENERATED.items():
        (ROOT / name).write_text(generate())
        print(f"wrote {name}")
