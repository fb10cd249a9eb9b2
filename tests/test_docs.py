"""The pages that are made from code are those that the code makes now, and links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", "examples", "deploy")
PAGES = [
    *ROOT.glob("*.md"),
    *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md")),
]


def test_the_page_of_the_spec_is_current():
    made = subprocess.run(
        [sys.executable, "-c", "import write_spec_docs; print(write_spec_docs.page())"],
        check=True,
        cwd=ROOT / "scripts",
        capture_output=True,
        text=True,
    ).stdout
    assert made == (ROOT / "docs" / "spec.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing


def test_every_setting_of_a_process_is_told_in_the_operations_page():
    from api.settings import ApiSettings
    from worker.settings import WorkerSettings

    page = (ROOT / "docs" / "operations.md").read_text()
    names = {*ApiSettings.model_fields, *WorkerSettings.model_fields}
    assert not [name for name in names if f"CASTALIA_{name.upper()}" not in page]


def test_every_decision_is_in_the_list():
    adrs = ROOT / "docs" / "adr"
    listed = (adrs / "README.md").read_text()
    assert not [path.name for path in adrs.glob("0*.md") if path.name not in listed]


@pytest.mark.parametrize(("name", "least"), [("cases.md", 30), ("security.md", 15)])
def test_every_test_that_a_page_names_is_there(name, least):
    page = (ROOT / "docs" / name).read_text()
    named = re.findall(r"`(tests/[^`]+)`", page)
    assert len(named) > least
    for node in named:
        path, _, test = node.partition("::")
        text = (ROOT / path).read_text()
        assert not test or f"def {test}(" in text, node
