"""The HTTP API, asked over a socket: the fields of the command line, errors of their own, limits, strangers."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import edge_transformer as et
from command_line import run
from documents import blocks
from edge_cases import edge_rows
from edge_transformer.serve.app import Server
from edge_transformer.serve.guard import LOOPBACK, Safety
from edge_transformer.serve.limits import Limits
from edge_transformer.tasks.base import bundled_models
from link_cases import link_model
from served import FAMILY, serving
from task_rows import CASES, TINY

pytestmark = pytest.mark.usefixtures("one_thread")
CHAIN = {
    "edges": [["Ann", "mother", "Eve"], ["Eve", "son", "Bob"], ["Bob", "sister", "Lil"], ["Lil", "son", "Tom"]],
    "query": ["Ann", "Tom"],
}


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    found: dict[str, Any] = {name: et.load(name) for name in bundled_models()}
    found["ring"] = link_model()
    for task in ("trees", "seq2seq", "node-labels", "graph-labels"):
        case = CASES[task]
        settings = {**TINY, **case.settings, "epochs": 1}
        found[task] = et.train(task, {"train": case.rows}, progress=False, threads=1, **settings)
    found["semantic"] = et.train("graphs", {"train": edge_rows(8, seed=1)}, progress=False, threads=1, **TINY)
    return found


@pytest.fixture(scope="module")
def server(models: dict[str, Any]) -> Iterator[tuple[httpx.Client, Server]]:
    with serving(models) as found:
        yield found


@pytest.fixture(scope="module")
def client(server: tuple[httpx.Client, Server]) -> httpx.Client:
    return server[0]


def ask(client: httpx.Client, model: str, verb: str, body: Any) -> httpx.Response:
    return client.post(f"/v1/models/{model}/{verb}", json=body)


def refusal(response: httpx.Response) -> tuple[int, str]:
    said = response.json()
    assert set(said) == {"error"}, said
    assert not re.search(r"Traceback|site-packages|\.py\b|/(work|home|tmp|root|usr)/", said["error"])
    return response.status_code, said["error"]


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", [FAMILY, CHAIN, {**FAMILY, "id": 7}])
@pytest.mark.parametrize("verb", ["predict", "explain"])
def test_the_answer_is_that_of_the_command_line(client: httpx.Client, verb: str, question: Any) -> None:
    found = ask(client, "clutrr-small", verb, question)
    told = run(verb, "clutrr-small", *(["--json"] if verb == "explain" else []), stdin=json.dumps(question))
    assert found.status_code == 200
    assert found.json() == json.loads(told.out)


@pytest.mark.parametrize("sentence", ["A cat liked that the boy ran .", {"tokens": ["Zzz", "ran"], "id": 1}])
def test_a_parse_is_that_of_the_command_line(client: httpx.Client, sentence: Any) -> None:
    line = sentence if isinstance(sentence, str) else json.dumps(sentence)
    told = json.loads(run("parse", "--json", stdin=line).out)
    for verb in ("parse", "predict"):
        assert ask(client, "cogs-small", verb, sentence).json() == told
        assert ask(client, "cogs-small", verb, {"inputs": [sentence, sentence]}).json() == {"answers": [told, told]}


def test_trees_labels_and_translations(client: httpx.Client, models: dict[str, Any]) -> None:
    for name, verb in (("trees", "parse"), *((name, "predict") for name in ("seq2seq", "node-labels", "graph-labels"))):
        questions = CASES[name].questions()
        found = ask(client, name, verb, {"inputs": questions}).json()["answers"]
        assert found == models[name].predict(questions)
    body = {"inputs": ["jump twice", {"source": "look", "id": 3}], "beam": 4, "nbest": 2}
    first, second = ask(client, "seq2seq", "translate", body).json()["answers"]
    best = models["seq2seq"].candidates(["jump twice"], 2, 4)[0]
    assert [each["target"] for each in first["candidates"]] == [each.text for each in best]
    assert second["id"] == 3
    assert len(second["candidates"]) == 2


def test_graphs_with_several_edges_a_token(client: httpx.Client, models: dict[str, Any]) -> None:
    sentences = ["Ann saw the dog .", {"tokens": ["Zoe", "ran"], "id": 4}]
    found = ask(client, "semantic", "parse", {"inputs": sentences}).json()["answers"]
    assert found == models["semantic"].predict(sentences)
    assert found[1]["id"] == 4
    said = client.get("/v1/models/semantic").json()
    assert (said["edges"], said["own"]) == (["agent", "theme"], ["past", "root"])
    assert (said["columns"], said["sentence"]) == ({"kind": ["", "N", "V"]}, {"asks": ["no", "yes"]})
    assert "text" not in said
    assert client.get("/v1/models/cogs-small").json()["text"] == {"field": "logical_form", "title": "logical form"}


def test_several_questions_about_one_graph(client: httpx.Client, models: dict[str, Any]) -> None:
    several = {**CHAIN, "query": [["Ann", "Tom"], ["Ann", "Bob"]]}
    found = ask(client, "clutrr-small", "predict", several).json()
    assert [each["query"] for each in found["answers"]] == several["query"]
    assert [found] == models["clutrr-small"].predict([several])
    assert len(ask(client, "clutrr-small", "predict", {**CHAIN, "query": "all"}).json()["answers"]) == 20
    status, said = refusal(ask(client, "clutrr-small", "explain", several))
    assert (status, "query" in said) == (422, True)
    said = client.get("/v1/models/graph-labels").json()
    assert (said["asks"], said["node_labels"], said["edge_features"]) == ("graph", ["C", "O", "end"], 1)


def test_links_are_ranked_explained_and_listed(client: httpx.Client, models: dict[str, Any]) -> None:
    question = {"head": "p0", "relation": "next"}
    assert ask(client, "ring", "predict", {"inputs": [question], "top": 3}).json() == {
        "answers": models["ring"].predict([question], top=3)
    }
    assert ask(client, "ring", "explain", question).json() == et.explain(models["ring"], question).to_dict()
    found = ask(client, "ring", "missing", {"inputs": [{"relation": "next"}], "top": 5}).json()
    assert found == {"answers": [{"links": models["ring"].missing(5, ["next"])}]}
    told = client.get("/v1/models/ring").json()
    assert (told["nodes"], told["facts"], told["relations"]) == (8, 24, ["before", "next", "skips"])
    assert client.get("/v1/models/ring/nodes", params={"like": "P3"}).json() == {"nodes": ["p3"]}
    around = client.get("/v1/models/ring/around", params={"node": "p0"}).json()
    assert sorted(around["nodes"]) == ["p0", "p1", "p2", "p6", "p7"]
    assert ["p0", "next", "p1"] in around["facts"]
    status, said = refusal(client.get("/v1/models/ring/around", params={"node": "p9"}))
    assert (status, "a node of the graph" in said) == (404, True)
    assert refusal(client.get("/v1/models/cogs-small/nodes"))[0] == 404


def test_attention_is_that_of_the_trace(client: httpx.Client) -> None:
    [edge] = ask(client, "clutrr-small", "attention", {**CHAIN, "pairs": [["Ann", "Bob"]]}).json()["edges"]
    assert (edge["edge"], len(edge["layers"])) == (["Ann", "Bob"], 9)
    for layer in edge["layers"][1:]:
        for row in layer["weights"]:
            assert sum(row) == pytest.approx(1, abs=1e-3)
    why = ask(client, "clutrr-small", "explain", CHAIN).json()
    [asked] = ask(client, "clutrr-small", "attention", CHAIN).json()["edges"]
    assert asked["edge"] == why["query"]
    for told, layer in zip(why["layers"], asked["layers"][1:], strict=True):
        assert (told["answer"], told["probability"]) == (layer["answer"], layer["probability"])
        pivot = told["pivots"][0]
        place = asked["pivots"].index(pivot["pivot"])
        assert layer["strengths"][place] == pytest.approx(pivot["strength"], abs=1e-3)
        mean = sum(row[place] for row in layer["weights"]) / len(layer["weights"])
        assert mean == pytest.approx(pivot["weight"], abs=1e-3)


def test_a_bad_input_has_an_error_and_its_neighbours_their_answers(client: httpx.Client) -> None:
    bad = {"edges": [["Ann", "cousin", "Bob"]], "query": ["Ann", "Bob"]}
    answers = ask(client, "clutrr-small", "predict", {"inputs": [FAMILY, bad, 5, CHAIN]}).json()["answers"]
    assert [answer.get("answer") for answer in answers] == ["daughter", None, None, "nephew"]
    assert answers[1]["error"].startswith('inputs[1]: found ["Ann", "cousin", "Bob"]; expected a relation')
    assert answers[2]["error"].startswith("inputs[2]: found 5; expected an object")


def test_many_at_once_get_their_own_answers(server: tuple[httpx.Client, Server]) -> None:
    client, shared = server
    before = shared.metrics.batches.values.get(("clutrr-small",), [0.0])
    questions = [{**(FAMILY, CHAIN)[number % 2], "id": number} for number in range(60)]
    questions[7] = {"edges": [], "query": []}
    found: dict[int, httpx.Response] = {}

    def one(number: int) -> None:
        found[number] = ask(client, "clutrr-small", "predict", questions[number])

    threads = [threading.Thread(target=one, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refusal(found.pop(7))[0] == 422
    for number, response in found.items():
        said = response.json()
        assert (said["id"], said["answer"]) == (number, ("daughter", "nephew")[number % 2])
    counts = shared.metrics.batches.values[("clutrr-small",)]
    batches = sum(counts[:-1]) - sum(before[:-1])
    assert batches < 59, "nothing was answered together"


# --- what is wrong ----------------------------------------------------------------------------------------------------

WRONG = {
    "no JSON": (b"{", 400, "no JSON"),
    "nothing": (b"", 400, "no JSON"),
    "no text": (b"\xff\xfe{", 400, "no text"),
    "not a number": (b'{"edges": NaN}', 400, "NaN"),
    "too large a number": (b'{"edges": 1e999}', 400, "finite"),
    "deep": (b"[" * 100_000, 400, "levels"),
    "deep and whole": (b"[" * 60 + b"]" * 60, 400, "levels"),
    "a list": (b'[{"edges": []}]', 422, '{"inputs": [...]}'),
    "no inputs": (b'{"inputs": []}', 422, "at least one"),
    "inputs of another kind": (b'{"inputs": {"edges": []}}', 422, "expected a list"),
    "a misspelt option": (b'{"inputs": [1], "topp": 1}', 422, '"topp"'),
    "a field that is missing": (b'{"edges": [["a", "son", "b"]]}', 422, 'no "query"'),
    "a field of another kind": (b'{"edges": 5, "query": ["a", "b"]}', 422, 'found 5; expected "edges"'),
    "an unknown field": (b'{"edge": [], "query": []}', 422, '"edge"'),
    "an unknown relation": (b'{"edges": [["a", "x", "b"]], "query": ["a", "b"]}', 422, "aunt, brother"),
    "an unknown node": (b'{"edges": [["a", "son", "b"]], "query": ["a", "c"]}', 422, "a, b"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_body_is_told_what_is_wrong(client: httpx.Client, case: str) -> None:
    body, status, part = WRONG[case]
    response = client.post(
        "/v1/models/clutrr-small/predict", content=body, headers={"content-type": "application/json"}
    )
    found, said = refusal(response)
    assert found == status, said
    assert part in said


def test_addresses_and_methods(client: httpx.Client) -> None:
    assert refusal(ask(client, "clutrr-smal", "predict", FAMILY)) == (
        404,
        f"found no model 'clutrr-smal'; expected one of {', '.join(client.get('/ready').json()['models'])}"
        "; did you mean clutrr-small?",
    )
    assert "it can predict, explain, attention" in refusal(ask(client, "clutrr-small", "parse", "a b"))[1]
    assert refusal(client.get("/v2/models"))[0] == 404
    assert refusal(client.get("/v1/models/clutrr-small/predict"))[0] == 405
    for path in ("/page/../app.py", "/page/%2e%2e%2fapp.py", "/page/..%5capp.py", "//etc/passwd", "/page/no.js"):
        assert client.get(path).status_code == 404, path
    said = client.post("/v1/models/clutrr-small/predict", content=json.dumps(FAMILY))
    assert refusal(said) == (415, "found a body of type 'none'; expected Content-Type: application/json")


def test_half_a_surrogate_pair_comes_back(client: httpx.Client) -> None:
    body = b'{"edges": [["\\ud800", "son", "Bob"], ["Bob", "sister", "\\n"]], "query": ["\\ud800", "\\n"]}'
    for verb in ("predict", "explain", "attention"):
        found = client.post(
            f"/v1/models/clutrr-small/{verb}", content=body, headers={"content-type": "application/json"}
        )
        assert found.status_code == 200
        assert "\ud800" in json.dumps(json.loads(found.content), ensure_ascii=False)


# --- limits -----------------------------------------------------------------------------------------------------------


def test_limits_are_told(models: dict[str, Any]) -> None:
    limits = Limits(kilobytes=2, items=3, nodes=3, tokens=4)
    some = {name: models[name] for name in ("clutrr-small", "cogs-small", "ring", "seq2seq")}
    with serving(some, limits) as (client, _):
        assert "at most 3" in refusal(ask(client, "clutrr-small", "predict", CHAIN))[1]
        assert "at most 4" in refusal(ask(client, "cogs-small", "parse", "A cat saw Emma ."))[1]
        assert refusal(ask(client, "cogs-small", "parse", {"inputs": ["a"] * 4}))[0] == 413
        everyone = {"edges": FAMILY["edges"], "query": "all"}
        status, said = refusal(ask(client, "clutrr-small", "predict", {"inputs": [everyone]}))
        assert (status, "6 questions" in said) == (413, True)
        assert refusal(ask(client, "cogs-small", "parse", "a" * 3000))[0] == 413

        def chunks() -> Iterator[bytes]:
            for _ in range(10):
                yield b'"' + b"a" * 1000

        headers = {"content-type": "application/json"}
        sent = client.post("/v1/models/cogs-small/parse", content=chunks(), headers=headers)
        assert refusal(sent) == (413, "found a body of more than 2048 bytes; expected at most so many")
        assert (
            "whole number from 1 to 100"
            in refusal(ask(client, "ring", "predict", {"inputs": [{"head": "p0", "relation": "next"}], "top": 101}))[1]
        )
        assert "beam" in refusal(ask(client, "seq2seq", "translate", {"inputs": ["jump"], "beam": 9}))[1]
        facts = [["p0", "next", f"new{number}"] for number in range(4)]
        said = refusal(ask(client, "ring", "predict", {"head": "p0", "relation": "next", "facts": facts}))[1]
        assert "at most 3" in said


class Slow:
    """A model that answers when it is let."""

    def __init__(self) -> None:
        self.go, self.asked = threading.Event(), []  # type: ignore[var-annotated]

    def predict(self, inputs: list[Any]) -> list[Any]:
        self.asked.append(list(inputs))
        assert self.go.wait(30)
        return [{"answer": value} for value in inputs]


def slow_model() -> tuple[Slow, Any]:
    from task_rows import RingModel

    model = RingModel({**{name: TINY[name] for name in ("dim", "heads", "layers")}, "classes": 2})
    slow = Slow()
    model.predict = slow.predict  # type: ignore[method-assign,assignment]
    model.task = "slow"
    return slow, model


def test_a_full_queue_answers_at_once_and_later_requests_are_answered(models: dict[str, Any]) -> None:
    slow, model = slow_model()
    with serving({"slow": model}, Limits(queue=4, items=4, seconds=30)) as (client, server):
        results: list[httpx.Response] = []
        threads = [threading.Thread(target=lambda: results.append(ask(client, "slow", "predict", 1)))]
        threads[0].start()
        wait_until(lambda: len(slow.asked) == 1)
        threads += [
            threading.Thread(target=lambda: results.append(ask(client, "slow", "predict", 2))) for _ in range(4)
        ]
        for thread in threads[1:]:
            thread.start()
        wait_until(lambda: len(server.models["slow"].batcher) == 4)
        started = time.perf_counter()
        refused = ask(client, "slow", "predict", 3)
        assert time.perf_counter() - started < 10
        assert refusal(refused) == (503, "4 questions wait for slow, of at most 4; ask again later")
        assert refused.headers["retry-after"] == "1"
        assert 'queue_items{model="slow"} 4' in client.get("/metrics").text
        slow.go.set()
        for thread in threads:
            thread.join(30)
        assert sorted(each.json()["answer"] for each in results) == [1, 2, 2, 2, 2]
        assert ask(client, "slow", "predict", 3).json() == {"answer": 3}


def test_time_is_limited_and_clients_that_hang_up_are_dropped() -> None:
    slow, model = slow_model()
    with serving({"slow": model}, Limits(seconds=4)) as (client, server):
        batcher = server.models["slow"].batcher
        late: list[httpx.Response] = []
        first = threading.Thread(target=lambda: late.append(ask(client, "slow", "predict", "first")))
        first.start()
        wait_until(lambda: len(slow.asked) == 1)
        host, port = client.base_url.host, client.base_url.port
        assert port is not None
        with socket.create_connection((host, port)) as gone:
            body = b'{"inputs": [1, 2, 3]}'
            head = f"POST /v1/models/slow/predict HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            gone.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            wait_until(lambda: len(batcher) == 3)
        wait_until(lambda: len(batcher) == 0)
        first.join(30)
        assert refusal(late[0]) == (503, "no answer within 4 seconds; ask for less, or again later")
        assert late[0].headers["retry-after"] == "1"
        slow.go.set()
        assert ask(client, "slow", "predict", "second").json() == {"answer": "second"}
        assert slow.asked == [["first"], ["second"]]  # what nobody waited for was never computed
        assert 'dropped_items_total{model="slow"} 4' in client.get("/metrics").text


def wait_until(holds: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


def test_a_failure_of_ours_has_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    slow, model = slow_model()
    slow.go.set()

    def fail(inputs: list[Any]) -> list[Any]:
        if 13 in inputs:
            raise RuntimeError("secret of /etc")
        return [{"answer": value} for value in inputs]

    model.predict = fail
    with serving({"slow": model}) as (client, _):
        assert refusal(ask(client, "slow", "predict", 13)) == (
            500,
            "the server could not answer this; its log says why",
        )
        found = ask(client, "slow", "predict", {"inputs": [1, 13, 2]}).json()["answers"]
        assert [each.get("answer") for each in found] == [1, None, 2]
        assert "secret" not in str(found)
        assert 'item_errors_total{model="slow",kind="internal"} 2' in client.get("/metrics").text
    assert "secret of /etc" in capfd.readouterr().err


# --- strangers --------------------------------------------------------------------------------------------------------


def test_every_response_keeps_a_browser_from_other_hosts(client: httpx.Client) -> None:
    for response in (
        client.get("/"),
        client.get("/health"),
        client.get("/nothing"),
        ask(client, "clutrr-small", "predict", 1),
    ):
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "server" not in response.headers
        assert "access-control-allow-origin" not in response.headers


def test_a_token_a_host_and_an_origin(models: dict[str, Any]) -> None:
    safety = Safety(b"a" * 16, LOOPBACK, ("https://example.org",))
    with serving({"cogs-small": models["cogs-small"]}, safety=safety) as (client, _):
        for path in ("/", "/health", "/ready", "/docs"):
            assert client.get(path).status_code == 200
        for given in ({}, {"authorization": "Bearer b"}, {"authorization": "aaaa"}, {"authorization": "Bearer ü"}):
            raw = [(name.encode(), value.encode("latin-1")) for name, value in given.items()]
            for path in ("/v1/models", "/metrics", "/openapi.json"):
                response = client.get(path, headers=raw)
                assert refusal(response)[0] == 401
                assert response.headers["www-authenticate"] == "Bearer"
        right = {"authorization": f"Bearer {'a' * 16}"}
        assert client.get("/v1/models", headers=right).status_code == 200
        assert refusal(client.get("/v1/models", headers={**right, "host": "evil.example"}))[0] == 421
        ours, theirs = ({**right, "origin": origin} for origin in ("https://example.org", "https://evil.example"))
        assert client.get("/v1/models", headers=ours).headers["access-control-allow-origin"] == "https://example.org"
        assert "access-control-allow-origin" not in client.get("/v1/models", headers=theirs).headers


def test_the_lines_of_the_documents(client: httpx.Client, capsys: pytest.CaptureFixture[str]) -> None:
    [snippet] = [block.text for block in blocks("docs/serve.md", "py")]
    assert len(snippet.split("\n\n")[1].splitlines()) == 3
    exec(snippet.replace("http://127.0.0.1:8000", f"{client.base_url}".rstrip("/")), {})
    assert capsys.readouterr().out == "daughter\n"


# --- state ------------------------------------------------------------------------------------------------------------


def test_metrics_are_in_the_format_of_prometheus(client: httpx.Client) -> None:
    ask(client, "clutrr-small", "predict", FAMILY)
    client.get("/v1/models/" + "x" * 50 + "/predict")  # fills no memory with labels
    text = client.get("/metrics").text
    number = r"[-+]?(\d+(\.\d+)?(e[-+]?\d+)?|Inf)"
    sample = re.compile(rf'[a-z_]+(\{{([a-z]+="(\\.|[^"\\])*",?)+\}})? {number}')
    for line in text.splitlines():
        assert sample.fullmatch(line) or re.fullmatch(
            r"# (HELP [a-z_]+ .+|TYPE [a-z_]+ (counter|gauge|histogram))", line
        )
    assert re.search(r'requests_total\{model="clutrr-small",operation="predict",status="200"\} \d', text)
    assert "xxx" not in text
    buckets = [
        float(value)
        for value in re.findall(r'request_seconds_bucket\{model="clutrr-small",operation="predict",.*\} (\S+)', text)
    ]
    assert buckets == sorted(buckets)


def test_the_description_names_every_operation(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for verb in ("predict", "explain", "attention", "parse", "translate", "missing"):
        post = paths[f"/v1/models/{{name}}/{verb}"]["post"]
        assert post["requestBody"]["content"]["application/json"]["example"]
        assert {"200", "413", "422", "503"} <= set(post["responses"])
    told = {model["name"]: model for model in client.get("/v1/models").json()["models"]}
    assert set(bundled_models()) <= set(told)
    assert told["clutrr-small"]["operations"] == ["predict", "explain", "attention"]
    assert told["clutrr-small"]["limits"]["nodes"] == 64


def test_no_folder_is_named(tmp_path: Path, models: dict[str, Any]) -> None:
    from edge_transformer.serve.metrics import Metrics
    from edge_transformer.serve.models import load_models

    models["ring"].save(tmp_path / "secret" / "ring")
    served = load_models([str(tmp_path / "secret" / "ring")], Limits(), Metrics())
    assert list(served) == ["ring"]
    assert "secret" not in json.dumps(served["ring"].describe())
    with pytest.raises(et.UserError, match="two models named ring"):
        load_models([str(tmp_path / "secret" / "ring")] * 2, Limits(), Metrics())
