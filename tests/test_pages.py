"""The README and the pages of docs/: their code runs as it stands, their commands exist, their links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest
from absl import flags

from serving import options
from trainers import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
# The same code with less of it.
SHORTER = {"epochs=10": "epochs=2", "epochs, updates = 10, 2000": "epochs, updates = 2, 500"}
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
# With packages that are no dependencies: run where these are there.
OPTIONAL = re.compile(r"^```py\nimport (\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\w+\.py)\n")  # the first line of a block that is a file to save and import
LINK = re.compile(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")


def name(path):
    return path.relative_to(ROOT).as_posix()


WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
@pytest.mark.usefixtures("names_as_before")
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TF_WCD_DATA", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    text = page.read_text()
    names = {}
    for match in BLOCK.finditer(text):
        code = match[1]
        for long, short in SHORTER.items():
            code = code.replace(long, short)
        if file := FILE.match(code):
            Path(file[1]).write_text(code)
            continue
        # Line numbers of errors are those of the page.
        before = text[: match.start(1)].count("\n")
        exec(compile("\n" * before + code, name(page), "exec"), names)


@pytest.mark.parametrize("package", ["mlflow", "optuna"])
def test_blocks_with_other_packages_run(package, tmp_path, monkeypatch):
    module = pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "questions.md").read_text()
    names = {package: module}
    exec(BLOCK.search(text)[1], names)
    (code,) = [match[2] for match in OPTIONAL.finditer(text) if match[1] == package]
    exec(code, names)


def test_a_unit_type_is_one_short_file_on_public_names():
    text = (ROOT / "docs" / "extending.md").read_text()
    (code,) = [match[1] for match in BLOCK.finditer(text) if FILE.match(match[1])]
    assert len(code.splitlines()) < 60
    assert re.findall(r"^(?:from|import) .*tf_wcd.*$", code, re.MULTILINE) == ["from tf_wcd.units import Unit"]


def commands(page):
    """Lines that a reader is told to type, without their comments."""
    lines = re.findall(r"^    ((?:wcd|make) .*)$", page.read_text(), re.MULTILINE)
    lines += re.findall(r"^((?:wcd|make) .*)$", page.read_text(), re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def flags_of(command):
    """Names of a command's flags."""
    before = set(flags.FLAGS)
    cli.COMMANDS[command].define_flags()
    found = set(flags.FLAGS) - before
    for flag in found:
        delattr(flags.FLAGS, flag)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_exist(page):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for program, *words in commands(page):
        if program == "make":
            assert set(words) <= targets, words
        elif words[0] == "serve":
            _, unknown = options.parse(words[1:])
            assert not unknown, words
        else:
            command = " ".join(word for word in words[:2] if not word.startswith("-"))
            assert command in cli.COMMANDS, words
            given = {word.lstrip("-").partition("=")[0] for word in words if word.startswith("-")}
            assert given <= flags_of(command) | {"json"}, words


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for link in map("".join, LINK.findall(text)):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
            assert anchor in slugs, link


def test_the_two_commands_are_shown():
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text


def test_the_architecture_names_every_module():
    text = (ROOT / "docs" / "developers.md").read_text()
    modules = {path.name for path in (ROOT / "tf_wcd").glob("*.py")} - {"__init__.py", "version.py"}
    packages = {f"{path.parent.name}/" for path in (ROOT / "tf_wcd").glob("*/__init__.py")}
    assert {name for name in modules | packages if f"`{name}`" not in text} == set()
