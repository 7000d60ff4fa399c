"""Write the pages of the documentation that are generated: `make docs`."""

from tests.beside.reasons import reference as differences
from tests.docs.api_reference import PAGE, reference
from tests.docs.map_of_tests import PAGE as MAP_OF_TESTS
from tests.docs.map_of_tests import readme
from tests.docs.pages import ROOT

GENERATED = {PAGE: reference, "docs/reference/llama-stack-differences.md": differences, MAP_OF_TESTS: readme}

if __name__ == "__main__":
    for name, generate in GENERATED.items():
        (ROOT / name).write_text(generate())
        print(f"wrote {name}")
