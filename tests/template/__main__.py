"""Write the parts of the template that follow from the routes: `make template`."""

from tests.template.definition import ROOT, generated

if __name__ == "__main__":
    for name, text in generated().items():
        (ROOT / name).write_text(text)
        print(f"wrote {name}")
