"""What mkdocs.yml calls to make the site: pages for the files outside docs/, the API reference, and links between all.

The pages in docs/ link to each other and to other files of the repository as GitHub needs it. Here each such link leads
to the page or file of the site.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import posixpath
import re
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from griffe import Extension, Object
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def pages() -> dict[str, str]:
    """The pages of the site by the files of the repository that they show."""
    named = {"RESULTS.md": "results/index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
    named |= {"research/log.md": "research/log.md", "README.md": "readme.md", "THIRD_PARTY.md": "third-party.md"}
    results = {path: path for path in _files("results/*.md")}
    examples = {path: path.replace(".py", ".md") for path in _files("examples/*.py")}
    docs = {path: path.removeprefix("docs/") for path in _files("docs/*.md")}
    return {**named, **results, **examples, **docs, "examples": "examples/index.md"}


def _files(pattern: str) -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List examples, results and what mkdocs.yml does not name in the navigation."""
    assert config.nav is not None
    named = re.findall(r"[\w-]+\.md", str(config.nav))
    found = {"Guides": [page for path, page in pages().items() if path.startswith("docs/") and page not in named]}
    for title in ("Examples", "Results"):
        found[title] = [page for path, page in pages().items() if path.startswith(f"{title.lower()}/")]
    for section in config.nav:
        for title, listed in found.items():
            if title in section and not isinstance(section, str):
                section[title] += listed
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of files outside docs/, the reference, and the files that any page links to."""
    texts = {page: _text(path) for path, page in pages().items() if not path.startswith("docs/")}
    del texts["readme.md"]  # the index says the same
    texts |= {"reference/index.md": reference(), "reference/nn.md": reference_of_nn()}
    for page, text in texts.items():
        files.append(File.generated(config, page, content=text))
    linked = {found for path in pages() for found in _linked(path)} - pages().keys()
    for path in sorted(linked):
        files.append(File.generated(config, f"files/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to where things are on the site."""
    shown = {site: path for path, site in pages().items()}.get(page.file.src_uri)
    if shown is None or shown.endswith(".py"):
        return markdown
    return LINK.sub(lambda link: link[1] + _on_site(link[2], shown, page.file.src_uri) + link[3], markdown)


def _on_site(link: str, shown: str, page: str) -> str:
    path, hash_, anchor = link.partition("#")
    target = _target(path, shown)
    if target is None:
        return link
    there = "index.md" if target == "README.md" else pages().get(target, f"files/{target}")
    return posixpath.relpath(there, posixpath.dirname(page) or ".") + hash_ + anchor


def _target(path: str, shown: str) -> str | None:
    """The file of the repository that a link leads to; None for other links."""
    if not path or "://" in path or path.startswith("mailto:"):
        return None
    target = posixpath.normpath(posixpath.join(posixpath.dirname(shown), path))
    return target if (ROOT / target).exists() else None


def _linked(path: str) -> set[str]:
    """The files that a page links to."""
    if not path.endswith(".md"):
        return set()
    targets = {_target(link.partition("#")[0], path) for _, link, _ in LINK.findall(_text(path))}
    return {target for target in targets if target is not None and (ROOT / target).is_file()}


def _text(path: str) -> str:
    """The text of a page: that of a Markdown file, an example with its docstring above, or the list of examples."""
    if path == "examples":
        rows = (f"- [{_title(each)}]({Path(each).stem}.md)" for each in _files("examples/*.py"))
        return "# Examples\n\nShort scripts to start from, each run by a test.\n\n" + "\n".join(rows) + "\n"
    text = (ROOT / path).read_text(encoding="utf-8")
    if not path.endswith(".py"):
        return text
    docstring = ast.get_docstring(ast.parse(text)) or ""
    code = text[text.index('"""', 3) + 3 :].strip()
    return f"# {Path(path).stem.replace('_', ' ').capitalize()}\n\n{docstring}\n\n`{path}`\n\n```python\n{code}\n```\n"


def _title(path: str) -> str:
    docstring = ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8"))) or path
    return docstring.split("\n")[0].rstrip(".").replace("[", "\\[")


class Doctests(Extension):
    """Fences the doctests of docstrings: without that, Markdown takes their prompts for quotations."""

    def on_object(self, *, obj: Object, **others: Any) -> None:
        if obj.docstring is not None:
            fenced = r"```pycon\n\1```\n"
            text = re.sub(r"(?m)^(>>> (?:.+\n)+)", fenced, f"{obj.docstring.value}\n")
            obj.docstring.value = text


# --- the reference ----------------------------------------------------------------------------------------------------


def reference() -> str:
    """Every public name of the package."""
    import edge_transformer as et

    names = sorted(et.__all__, key=lambda name: (name[0].isupper(), name))
    text = "# API reference\n\nEverything here is `et.NAME` after `import edge_transformer as et`.\n\n"
    text += "".join(_entry(et, name) for name in names)
    return text + "## What callbacks get\n\n" + _entry_of("edge_transformer.training.track.TrainingStep")


def reference_of_nn() -> str:
    """Every public name of `nn` that `reference` has not."""
    import edge_transformer as et
    from edge_transformer import nn

    rooms = [name for name in nn.__all__ if inspect.ismodule(getattr(nn, name))]
    names = [name for name in nn.__all__ if name not in (*rooms, *et.__all__)]
    text = "# Modules: et.nn\n\n" + "".join(_entry(nn, name) for name in names)
    for room in rooms:
        path = f"edge_transformer.nn.{room}"
        own = [
            name
            for name, value in vars(getattr(nn, room)).items()
            if getattr(value, "__module__", None) == path and name not in nn.__all__ and not name.startswith("_")
        ]
        text += f"## et.nn.{room}\n\n::: {path}\n    options:\n      show_root_heading: false\n      members: {own}\n\n"
    return text


def _entry(room: Any, name: str) -> str:
    value = getattr(room, name)
    module = value.__name__ if name == "explain" else value.__module__
    return _entry_of(f"{module}.{name}")


def _entry_of(path: str) -> str:
    module, _, name = path.rpartition(".")
    value = getattr(import_module(module), name)
    text = f"::: {path}\n\n"
    if isinstance(value, type) and (dataclasses.is_dataclass(value) or hasattr(value, "_fields")):
        text += fields_table(value)
    return text


def fields_table(config: type) -> str:
    """The fields of a dataclass or named tuple, with the comments behind them."""
    write = _generate()
    if dataclasses.is_dataclass(config):
        defaults = {each.name: each.default for each in dataclasses.fields(config)}
    else:
        defaults = dict.fromkeys(config._fields, dataclasses.MISSING)  # type: ignore[attr-defined]
    comments = write.field_comments(config)
    rows = []
    for name, default in defaults.items():
        shown = "" if default is dataclasses.MISSING else f"`{default!r}`"
        rows.append((f"`{name}`", shown, write.one_line(comments.get(name) or write.PLAIN.get(name))))
    return write.table(("field", "default", "what"), rows) + "\n"


def _generate() -> Any:
    """The module docs/generate.py."""
    spec = spec_from_file_location("generate", ROOT / "docs/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
