"""The page in a real browser: draw, ask, move the slider, type, break the input, lose the server and get it back."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

import edge_transformer as et
from command_line import run
from edge_cases import edge_rows, random_sentence_graphs
from edge_transformer.data.graphs.edges import SentenceGraph
from edge_transformer.draw.arcs import diagram_of_edges
from edge_transformer.serve.guard import Safety
from edge_transformer.tasks.base import bundled_models
from link_cases import link_model
from served import free_port, serving
from task_rows import CASES, TINY

pytestmark = pytest.mark.usefixtures("one_thread")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if BROWSER is None:
    pytest.skip("no chromium was found", allow_module_level=True)
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
WAIT = 120_000  # ms: other programs may run
playwright.expect.set_options(timeout=WAIT)
STAFF = [
    {"edges": [["a", "leads", "b"], ["b", second, "c"]], "query": ["a", "c"], "target": target}
    for second, target in (("leads", "far"), ("sits with", "near")) * 6
]


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    tiny: Any = {**TINY, "progress": False, "threads": 1}
    return {
        **{name: et.load(name) for name in bundled_models()},
        "ring": link_model(),
        "staff": et.train("relations", {"train": STAFF}, **tiny),
        "semantic": et.train("graphs", {"train": edge_rows(20, seed=1)}, **tiny),
    }


@pytest.fixture(scope="module")
def client(models: dict[str, Any]) -> Iterator[httpx.Client]:
    with serving(models) as (found, _):
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page whose errors fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    opened, errors = context.new_page(), []
    opened.set_default_timeout(WAIT)
    opened.on("pageerror", lambda error: errors.append(f"{error}"))
    opened.on("console", lambda message: errors.append(message.text) if "Content Security" in message.text else None)
    yield opened
    context.close()
    assert not errors


def visit(page: Any, client: httpx.Client, address: str = "") -> None:
    page.goto(f"{client.base_url}/{address}")


def answer(page: Any, expected: str) -> None:
    playwright.expect(page.locator(".answer .said strong")).to_have_text(expected)


def settled(page: Any) -> None:
    """Wait until no answer comes any more that would draw the people anew."""
    playwright.expect(page.locator(".view.family")).to_have_attribute("aria-busy", "false")


def place(page: Any, name: str) -> tuple[float, float]:
    """The middle of a person."""
    settled(page)
    box = page.locator(f'.person[data-name="{name}"]').bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=8)
    page.mouse.up()


def tell(page: Any, text: str) -> None:
    page.get_by_label(re.compile("Tell a relation")).fill(text)
    page.get_by_role("button", name="Add", exact=True).click()


# --- family -----------------------------------------------------------------------------------------------------------


def test_examples_follow_and_the_model_is_right(page: Any, client: httpx.Client) -> None:
    visit(page, client)
    answer(page, "grandson")
    examples = page.evaluate("import('./page/examples.js').then((found) => found.EXAMPLES)")
    assert [len(each["edges"]) for each in examples] == list(range(2, 11))
    questions = [{name: each[name] for name in ("edges", "query")} for each in examples]
    found = client.post("/v1/models/clutrr-small/predict", json={"inputs": questions}).json()["answers"]
    assert [each["answer"] for each in found] == [each["target"] for each in examples]
    for each in examples:
        page.get_by_role("button", name=f"Example of {len(each['edges'])} relations").click()
        answer(page, each["target"])
        playwright.expect(page.locator(".steps .step")).to_have_count(len(each["edges"]) - 1)
        playwright.expect(page.locator("polygon.face")).to_have_count(len(each["edges"]) - 1)


def test_tell_ask_change_and_remove(page: Any, client: httpx.Client) -> None:
    visit(page, client)
    page.get_by_role("button", name="Clear").click()
    playwright.expect(page.locator(".answer")).to_contain_text("Tell at least one relation")
    tell(page, "Ann's mother is Eve. Bob is Eve's son")
    answer(page, "brother")
    tell(page, "Lil is the sister of Bob")
    tell(page, "Lil’s son is Tom.")
    answer(page, "nephew")
    assert "f=Ann~mother~Eve" in page.url
    page.get_by_label("What Tom is to Lil").select_option("daughter")
    answer(page, "niece")
    page.get_by_role("button", name="Remove: Lil’s daughter is Tom").click()
    playwright.expect(page.locator(".facts select")).to_have_count(3)
    tell(page, "Who is Lil to Ann?")
    answer(page, "sister")
    tell(page, "Ann likes Eve")
    playwright.expect(page.get_by_role("alert").first).to_contain_text("is not understood")
    tell(page, "Zed is Ann's cousin")
    playwright.expect(page.get_by_role("alert").first).to_contain_text("aunt, brother, daughter")


def test_draw_by_dragging_and_by_keyboard(page: Any, client: httpx.Client) -> None:
    visit(page, client, "#family?f=Ann~mother~Eve&q=Ann~Eve")
    page.get_by_role("button", name="Add a person").click()
    drag(page, place(page, "Eve"), place(page, "Bob"))
    dialog = page.get_by_role("dialog")
    playwright.expect(dialog.get_by_label("Who it is")).to_have_value("Bob")
    dialog.get_by_role("button", name="son", exact=True).click()
    answer(page, "brother")
    settled(page)
    page.locator('.person[data-name="Bob"]').focus()  # the same without a mouse
    page.keyboard.press("Enter")
    dialog.get_by_label("Whose relative").select_option("Bob")
    dialog.get_by_label("Who it is").fill("Lil")
    dialog.get_by_role("button", name="sister", exact=True).focus()
    page.keyboard.press("Enter")
    answer(page, "sister")
    x, y = place(page, "Bob")
    drag(page, (x, y), (x + 40, y + 80))
    assert abs(place(page, "Bob")[1] - y) > 30, "a person dropped on an empty place stays there"


def test_triangles_light_up_layer_by_layer(page: Any, client: httpx.Client) -> None:
    visit(page, client)
    answer(page, "grandson")
    slider = page.get_by_label("Layer", exact=True)
    playwright.expect(page.locator("polygon.face.now")).to_have_count(1)
    slider.fill("0")
    playwright.expect(page.locator("polygon.face.later")).to_have_count(3)
    playwright.expect(page.locator(".edge.asked .label")).to_have_text("?")
    slider.focus()
    page.keyboard.press("ArrowRight")
    playwright.expect(page.locator("polygon.face.now")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    playwright.expect(page.locator("polygon.face.before")).to_have_count(1)
    playwright.expect(page.locator(".caption")).to_contain_text("After it, the model reads the question as")
    page.locator(".steps .step").first.hover()
    playwright.expect(page.locator(".caption")).to_contain_text("because Nancy’s sister is Betty and Betty’s brother")
    playwright.expect(page.locator("polygon.face.focus")).to_have_count(1)
    page.locator("polygon.face.now").focus()
    playwright.expect(page.locator(".caption")).to_contain_text("strength")
    assert "layer=2" in page.url
    page.reload()
    playwright.expect(page.locator(".layers output")).to_have_text("layer 2")


def test_a_question_unlike_training_is_said_to_be_one(page: Any, client: httpx.Client) -> None:
    visit(page, client, "#family?f=Ann~mother~Eve&f=Bob~son~Tom&q=Ann~Tom")
    playwright.expect(page.locator(".answer .note")).to_contain_text("a guess")
    playwright.expect(page.locator(".steps")).to_contain_text("cannot derive")
    visit(page, client, "#family?f=Ann~cousin~Eve&q=Ann~Eve")
    playwright.expect(page.locator(".answer .problem")).to_contain_text("a relation that the model knows")


# --- sentence, attention, links ---------------------------------------------------------------------------------------


def test_a_sentence_grows_as_one_types(page: Any, client: httpx.Client) -> None:
    visit(page, client, "#sentence")
    field = page.get_by_label(re.compile("A sentence"))
    field.fill("")
    playwright.expect(page.locator(".drawing")).to_have_text("Type a sentence.")
    field.press_sequentially("Emma saw a wug", delay=20)
    playwright.expect(page.locator(".arcs .token")).to_have_count(4)
    playwright.expect(page.locator(".arcs .unknown")).to_have_text([re.compile("wug")])  # once, when all is typed
    playwright.expect(page.locator(".sentence .note")).to_contain_text("wug")
    field.fill("A cat ran .")
    playwright.expect(page.locator(".form")).to_have_text(re.compile(r"cat \( x _ 1 \) AND run \. agent"))
    page.locator('.form [data-token="1"]').first.hover()
    playwright.expect(page.locator('.arcs .token[data-token="1"]')).to_have_class(re.compile("hit-now"))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for kind in ("SVG", "PNG", "JSON"):
        page.get_by_role("button", name=f"Copy {kind}").click()
        playwright.expect(page.get_by_role("status").last).to_have_text(re.compile(f"{kind} (copied|saved)"))
    parse = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert parse["logical_form"] == "cat ( x _ 1 ) AND run . agent ( x _ 2 , x _ 1 )"
    drawn = page.evaluate("import('./page/arcs.js').then(({ svgText }) => svgText(document.querySelector('.arcs')))")
    assert drawn.startswith("<svg")
    assert "<style" in drawn
    field.fill("a " * 200)
    playwright.expect(page.get_by_role("alert").first).to_contain_text("at most 128")


def test_a_sentence_graph_has_arcs_above_and_below(page: Any, client: httpx.Client) -> None:
    """They are on the sides on which the terminal and SVG files have them."""
    words = ("The", "cat", "that", "Emma", "saw", "slept", ".")
    above = [(1, 0, "det"), (1, 2, "ref"), (4, 3, "nsubj"), (1, 4, "acl"), (5, 1, "nsubj"), (5, 5, "root")]
    graphs = [SentenceGraph(words, (*above, (4, 1, "obj"))), *random_sentence_graphs(30, seed=3)]
    visit(page, client, "#sentence?model=semantic&text=the+dog+ran+.")
    playwright.expect(page.locator(".arcs .token")).to_have_count(4)
    playwright.expect(page.locator(".tags")).to_contain_text("asks: ")
    page.evaluate("import('./page/arcs.js').then((found) => { window.arcs = found; })")
    for graph in graphs:
        expected = diagram_of_edges(graph)
        found = page.evaluate("(parse) => window.arcs.diagramOf(parse)", graph.to_json())
        for side in ("above", "below"):
            arcs = sorted((arc["parent"], arc["child"], arc["label"]) for arc in found[side])
            assert arcs == [tuple(arc) for arc in getattr(expected, side)], graph
        assert [tuple(row) for row in found["notes"] if any(row)] == [row for row in expected.notes if any(row)]
        drawn = page.evaluate("(parse) => window.arcs.drawArcs(parse).outerHTML", graph.to_json())
        assert "NaN" not in drawn
        assert drawn.count('class="arc"') == len(expected.above) + len(expected.below)


def test_other_graphs_than_families(page: Any, client: httpx.Client) -> None:
    visit(page, client, "#family?model=staff")
    playwright.expect(page.locator(".answer")).to_contain_text("between two nodes")
    tell(page, "Ann leads Bob; Bob sits with Eve Adams")
    playwright.expect(page.locator(".answer .said strong")).to_have_text(re.compile("far|near"))
    playwright.expect(page.locator(".asked-row").first).to_contain_text("What is")
    playwright.expect(page.locator(".edge .label").first).to_have_text("leads")
    assert "f=Bob~sits+with~Eve+Adams" in page.url
    tell(page, "What is Bob to Eve Adams?")
    playwright.expect(page.get_by_label("To what")).to_have_value("Eve Adams")
    page.get_by_role("tab", name="Attention").click()
    playwright.expect(page.locator(".matrix thead th")).to_have_text(["through", "Ann", "Bob", "Eve Adams"])


def test_models_without_a_view_are_named(page: Any) -> None:
    case = CASES["node-labels"]
    staff: Any = {**TINY, **case.settings, "epochs": 1, "progress": False, "threads": 1}
    with serving({"bosses": et.train("node-labels", {"train": case.rows}, **staff)}) as (client, _):
        visit(page, client)
        playwright.expect(page.locator("#views")).to_contain_text("No view fits bosses (node-labels)")
        visit(page, client, "docs")
        page.locator(".operation", has_text="/predict").get_by_text("Try it").click()
        page.get_by_role("button", name="Send").click()
        playwright.expect(page.locator(".operation pre:visible")).to_contain_text('"answers"')


def test_attention_of_an_edge_by_head(page: Any, client: httpx.Client) -> None:
    visit(page, client, "#family")
    answer(page, "grandson")
    page.get_by_role("tab", name="Attention").click()
    playwright.expect(page.locator(".matrix tbody tr")).to_have_count(6)
    playwright.expect(page.locator(".pivot")).to_have_count(5)
    page.get_by_role("button", name="head 2").click()
    page.get_by_label("From").select_option("Susan")
    playwright.expect(page.locator(".readings .chosen")).to_contain_text("layer 1")
    page.get_by_role("button", name="layer 3").click()
    playwright.expect(page.locator(".layers output")).to_have_text("layer 3")
    cells = page.locator(".matrix tbody tr").nth(1).locator("td").all_text_contents()
    assert sum(map(float, cells)) == pytest.approx(1, abs=0.03)
    assert {"layer=3", "edge=Susan~Peter", "head_shown=2"} <= set(page.url.split("?")[1].split("&"))
    shown = page.url
    page.goto("about:blank")
    page.goto(shown)
    playwright.expect(page.locator(".matrix tbody tr").nth(1).locator("td")).to_have_text(cells)


def test_a_knowledge_graph(page: Any, client: httpx.Client) -> None:
    visit(page, client, "#links?model=ring&head=p0&relation=next")
    playwright.expect(page.locator(".ranked").first.locator("li")).to_have_count(8)
    playwright.expect(page.locator(".ranked .tag")).to_have_count(1)
    playwright.expect(page.locator(".star-node")).to_have_count(5)
    page.get_by_role("button", name="Why (p0, next, p1)").click()
    playwright.expect(page.locator(".why .said")).to_contain_text("(p0, next, p1)")
    page.get_by_label("Tail").fill("p2")
    page.get_by_label("Tail").press("Tab")
    playwright.expect(page.locator(".why .said")).to_contain_text("(p0, next, p2)")
    page.get_by_role("button", name=re.compile("List them")).click()
    playwright.expect(page.locator(".ranked").last.locator("li")).to_have_count(15)
    page.get_by_label("Tail").fill("nobody")
    page.get_by_label("Tail").press("Tab")
    playwright.expect(page.locator(".why .problem")).to_contain_text("nobody")


# --- the server goes and comes ----------------------------------------------------------------------------------------


def test_the_server_is_lost_and_found(page: Any, models: dict[str, Any]) -> None:
    port, some = free_port(), {"clutrr-small": models["clutrr-small"]}
    with serving(some, port=port) as (client, _):
        visit(page, client)
        answer(page, "grandson")
    page.get_by_label("What Peter is to Betty").select_option("sister")
    playwright.expect(page.locator("#banner")).to_contain_text("The server is gone")
    playwright.expect(page.locator(".answer")).to_contain_text("asked again")
    with serving(some, port=port):
        answer(page, "granddaughter")


def test_a_token_is_asked_for(page: Any, models: dict[str, Any]) -> None:
    with serving({"cogs-small": models["cogs-small"]}, safety=Safety(b"0123456789abcdef")) as (client, _):
        visit(page, client)
        page.get_by_label("Token").last.fill("0123456789abcdef")
        page.get_by_role("button", name="Go on").click()
        playwright.expect(page.locator(".arcs .token").first).to_be_visible()


# --- for everybody ----------------------------------------------------------------------------------------------------

VIEWS = ("family", "sentence", "attention", "links")


@pytest.mark.parametrize("width", [360, 1920])
@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_wider_than_the_window(browser: Any, client: httpx.Client, view: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.set_default_timeout(WAIT)
    visit(page, client, f"#{view}")
    page.locator(".view svg").first.wait_for()
    if view == "family":
        page.get_by_role("button", name="Example of 10 relations").click()
        playwright.expect(page.locator(".answer .said strong")).to_have_text("father")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_accessibility(browser: Any, client: httpx.Client, view: str, scheme: str) -> None:
    axe = _axe()
    if axe is None:
        pytest.skip("axe-core is not installed: neither axe-playwright-python nor node_modules has it")
    context = browser.new_context(color_scheme=scheme, bypass_csp=True, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(WAIT)
    visit(page, client, f"#{view}")
    page.locator(".view svg").first.wait_for()
    page.wait_for_load_state("networkidle")
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    context.close()
    said = [f"{each['id']}: {[node['html'][:160] for node in each['nodes'][:3]]}" for each in found["violations"]]
    assert not said, "\n".join(said)


def _axe() -> str | None:
    found = find_spec("axe_playwright_python")
    places = [Path(place).parent for place in (found.submodule_search_locations or ())] if found else []
    places = [path for place in places for path in (place / "axe_playwright_python").rglob("axe.min.js")]
    places += [Path(__file__).parents[2] / "node_modules/axe-core/axe.min.js"]
    return next((path.read_text(encoding="utf-8") for path in places if path.exists()), None)


def test_the_page_is_small_and_asks_no_other_host(page: Any, client: httpx.Client) -> None:
    asked: list[str] = []
    sizes: list[int] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("response", lambda response: sizes.append(len(response.body())) if "/v1/" not in response.url else None)
    visit(page, client)
    answer(page, "grandson")
    assert all(url.startswith((f"{client.base_url}", "data:", "blob:")) for url in asked)
    assert sum(sizes) < 300_000
    assert len(sizes) > 10


# --- saved files ------------------------------------------------------------------------------------------------------


def test_saved_files_show_the_same_views(page: Any, tmp_path: Path) -> None:
    chain = {"edges": [["Ann", "mother", "Eve"], ["Eve", "son", "</script>"], ["</script>", "sister", "Lil"]]}
    questions = [{**chain, "query": ["Ann", "Lil"]}, {**chain, "query": ["Ann", "</script>"]}]
    lines = "".join(f"{json.dumps(each)}\n" for each in questions)
    assert run("explain", "clutrr-small", "--html", f"{tmp_path}/why.html", stdin=lines).code == 0
    page.goto(f"file://{tmp_path}/why.html")
    answer(page, "sister")
    playwright.expect(page.locator("polygon.face")).to_have_count(2)
    playwright.expect(page.locator(".matrix tbody tr")).to_have_count(6)
    page.get_by_role("button", name="Ann’s brother is </script>").click()
    answer(page, "brother")
    assert run("parse", "--html", f"{tmp_path}/parse.html", stdin="A cat ran .\nEmma slept .\n").code == 0
    page.goto(f"file://{tmp_path}/parse.html")
    page.get_by_role("button", name="Emma slept .").click()
    playwright.expect(page.locator(".form")).to_have_text(re.compile(r"sleep \. agent \( x _ 1 , Emma \)"))


def test_saved_links(page: Any, tmp_path: Path, models: dict[str, Any]) -> None:
    models["ring"].save(tmp_path / "ring")
    line = json.dumps({"head": "p0", "relation": "next", "tail": "p2"})
    assert run("explain", str(tmp_path / "ring"), "--html", f"{tmp_path}/links.html", stdin=line).code == 0
    page.goto(f"file://{tmp_path}/links.html")
    playwright.expect(page.locator(".why .said")).to_contain_text("(p0, next, p2)")
