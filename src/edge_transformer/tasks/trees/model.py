"""The model of dependency parsing: a label or null for every word and possible head, and the best tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, overload

import torch
from torch import Tensor
from torch.nn import functional as F

from ...data.tensors import Lexicon, SentenceTable, Vocab, WordTypes
from ...data.trees.conllu import DependencySentence, arriving_sentences, read_words
from ...io.settings import require_choice, require_fraction, require_positive
from ...io.streams import answered, never, unquoted
from ...nn.encoder import TokenEncoder
from ...nn.heads import BiaffineLabelHead, EdgeLabelHead
from ...nn.inputs import WordInput
from ...nn.spanning import best_tree
from ..base import Progress, TaskModel, answering, build_encoder, in_full, model_options, require_list

PREDICT_EDGES = 20_000  # pairs of words computed at once outside training, to bound memory
NULL = 0  # the number of the null label, for pairs that are no arc; real labels follow
FORBIDDEN = -1e9
SentenceForm = str | Sequence[str] | Mapping[str, Any] | DependencySentence  # how a sentence may be given


@dataclass(frozen=True)
class TreeParserOptions:
    """Settings of a tree parser's `model:` section besides those of its encoder."""

    scores: str = "pairs"  # "pairs": a label or null for each pair | "heads": a softmax over heads, then a label
    max_distance: int = 16  # relative positions are clipped here
    characters: int = 0  # filters of the character model; 0 for none
    word_dim: int | None = None  # width of word embeddings; by default that of a state
    ends: bool = False  # add words to all edges that start or end at them, not only to their self-edges
    input_dropout: float = 0.0  # of word embeddings
    arc_dim: int = 128  # width of the biaffine arc scores, for encoders without edge states
    label_dim: int = 64

    def __post_init__(self) -> None:
        require_choice(self, "scores", ("pairs", "heads"))
        require_positive(self, "max_distance", "arc_dim", "label_dim")
        require_fraction(self, "input_dropout")
        if self.word_dim is not None:
            require_positive(self, "word_dim")
        if self.characters < 0:
            raise ValueError(f"characters must not be negative, but is {self.characters}")


class TreeParser(TaskModel):
    """Words in; a head and a label for every word out, together a tree with one root."""

    task = "trees"
    Options = TreeParserOptions
    reads = "tokens"

    def __init__(
        self, settings: Mapping[str, Any], lexicon: Lexicon, labels: Vocab, root_label: str | None = None
    ) -> None:
        """`root_label` is the label, if there is one, that the arc from the root and no other has."""
        super().__init__()
        self.settings, self.lexicon, self.labels, self.root_label = dict(settings), lexicon, labels, root_label
        self.options = options = model_options(settings, TreeParserOptions)
        self.encoder = build_encoder(settings, TreeParserOptions, self.reads)
        dim = self.encoder.config.dim
        self.input = WordInput(
            lexicon.word_numbers,
            lexicon.letter_numbers,
            dim,
            characters=options.characters,
            max_distance=options.max_distance if self.encoder.takes_edges else None,
            ends=options.ends and self.encoder.takes_edges,
            dropout=options.input_dropout,
            word_dim=options.word_dim,
        )
        self.head: EdgeLabelHead | BiaffineLabelHead
        if self.encoder.has_edge_states:
            self.head = EdgeLabelHead(dim, len(labels) + 1)
        else:
            dims = options.arc_dim, options.label_dim
            self.head = BiaffineLabelHead(dim, len(labels) + 1, *dims, dropout=self.encoder.config.dropout)

    def forward(self, words: Tensor, letters: Tensor, places: Tensor, node_mask: Tensor | None = None) -> Tensor:
        """Logits of the labels of all pairs: `[batch, n words, n + 1 heads, 1 + labels]`.

        words `[types]` and letters `[types, most]` are the distinct words; places `[batch, n]` says which stands where.
        Head 0 is the root; label 0 means no arc. `node_mask` includes the root.
        """
        if isinstance(self.encoder, TokenEncoder):
            encoded = self.encoder.encode_tokens(self.input.of_tokens(words, letters, places), node_mask)
        else:
            encoded = self.encoder.encode(self.input(words, letters, places), node_mask)
        return self.head(encoded)[:, 1:]

    def loss(self, logits: Tensor, heads: Tensor, labels: Tensor) -> Tensor:
        """The summed loss. heads and labels: `[batch, n]`, labels counted from 0.

        `scores: pairs` classifies each of the n + 1 pairs of a word; `heads` chooses its head, then the label.
        """
        logits = in_full(logits)
        if self.options.scores == "pairs":
            targets = torch.full(logits.shape[:3], NULL, device=logits.device)  # (B, n, n + 1)
            targets.scatter_(2, heads[..., None], (labels + 1)[..., None])
            return F.cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="sum")
        arcs = _without_self(-logits[..., NULL])  # (B, n, n + 1)
        chosen = logits[..., 1:].gather(2, heads[..., None, None].expand(-1, -1, 1, logits.shape[3] - 1)).squeeze(2)
        of_heads = F.cross_entropy(arcs.flatten(0, 1), heads.flatten(), reduction="sum")
        return of_heads + F.cross_entropy(chosen.flatten(0, 1), labels.flatten(), reduction="sum")

    def best_arcs(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The score of each possible arc with its best label, `[batch, n, n + 1]`, and that label.

        The sum over the arcs of a tree is its log-probability up to a constant, given that the root's label is only at
        the root. With `scores: pairs` an arc scores log p(label) - log p(null), as all other pairs are null.
        """
        logits = in_full(logits)
        of_labels = logits[..., 1:]
        if self.root_label is not None:
            root = self.labels.number(self.root_label)
            of_labels = of_labels.clone()
            at_root = of_labels[..., 0, :].clone()
            of_labels[..., root] = FORBIDDEN
            of_labels[..., 0, :] = FORBIDDEN
            of_labels[..., 0, root] = at_root[..., root]
        best, label = of_labels.max(-1)
        if self.options.scores == "heads":
            best = best - of_labels.logsumexp(-1)
        return _without_self(best - logits[..., NULL]), label

    def description(self) -> dict[str, Any]:
        return {
            "model": self.settings,
            "lexicon": self.lexicon.to_json(),
            "labels": list(self.labels),
            "root_label": self.root_label,
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        lexicon = Lexicon.from_json(description["lexicon"])
        return cls(description["model"], lexicon, Vocab(description["labels"]), description["root_label"])

    def predict(self, inputs: Sequence[str | Sequence[str] | Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Parse sentences: texts with spaces between the words, lists of words, or {"tokens": [...]}."""
        require_list(inputs, "sentence")
        sentences = [read_words(value, f"input {number}") for number, value in enumerate(inputs)]
        return [tree_as_json(tree) for tree in self._parse(sentences)]

    def predict_lines(
        self, lines: Iterable[str], source: str, pausing: Callable[[], bool] = never
    ) -> Iterator[dict[str, Any]]:
        """Parse lines of JSON, as `predict` takes it, plain sentences, or CoNLL-U."""
        return (tree_as_json(tree) for _, tree in self.parse_lines(map(unquoted, lines), source, pausing))

    def parse_lines(
        self, lines: Iterable[str], source: str, pausing: Callable[[], bool] = never
    ) -> Iterator[tuple[int | None, DependencySentence]]:
        """Parse lines as they arrive; yields line numbers and trees. A source named *.conllu holds CoNLL-U."""
        sentences = arriving_sentences(lines, source, True if source.endswith(".conllu") else None)
        return ((tree.line, tree) for tree in self.parse_stream(sentences, pausing))

    @overload
    def parse(self, sentences: str) -> DependencySentence: ...  # type: ignore[overload-overlap]
    @overload
    def parse(self, sentences: Sequence[SentenceForm]) -> list[DependencySentence]: ...
    def parse(self, sentences: str | Sequence[SentenceForm]) -> DependencySentence | list[DependencySentence]:
        """Parse one sentence, a text with spaces between the words, or several.

        Several may be texts, lists of words, {"tokens": [...]}, or sentences of CoNLL-U, which keep all but their tree.
        """
        if isinstance(sentences, str):
            return self.parse([sentences])[0]
        return self._parse([read_words(value, f"sentence {n}") for n, value in enumerate(sentences, start=1)])

    def parse_stream(
        self, sentences: Iterable[DependencySentence], pausing: Callable[[], bool] = never
    ) -> Iterator[DependencySentence]:
        """Parse sentences as they arrive, many together, or fewer if `pausing` says that the next is not there yet."""
        words = (read_words(sentence, sentence.source, sentence.line) for sentence in sentences)
        return answered(words, self._parse, lambda sentence: sentence.size**2, 5 * PREDICT_EDGES, pausing)

    @torch.no_grad()
    def _parse(self, sentences: Sequence[DependencySentence]) -> list[DependencySentence]:
        if not sentences:
            return []
        types, table = WordTypes(self.lexicon), SentenceTable(0)
        for sentence in sentences:
            table.add(types.add(sentence.words), [])
        with answering(self):
            found = predict_trees(self, self, types, table, next(self.parameters()).device)
        trees = trees_of(found, [sentence.size for sentence in sentences], self.labels)
        return [sentence.with_tree(*tree) for sentence, tree in zip(sentences, trees, strict=True)]


def tree_as_json(tree: DependencySentence) -> dict[str, Any]:
    """A parsed sentence as plain values; heads count words from 1, and 0 is the root, as in CoNLL-U.

    It keeps the other fields of JSON input, and the `sent_id` of CoNLL-U as "id".
    """
    named = {} if tree.sent_id is None else {"id": tree.sent_id}
    answer = {"tokens": list(tree.words), "heads": list(tree.heads), "relations": list(tree.relations)}
    return named | dict(tree.fields) | answer


def predict_trees(
    parser: TreeParser,
    model: Callable[..., Tensor],
    types: WordTypes,
    table: SentenceTable,
    device: torch.device,
    progress: Progress | None = None,
) -> Tensor:
    """Predict the head and label of all words of a table, row by row: `[words, 2]`. `model` may wrap the parser."""
    found = torch.empty(int(table.sizes.sum()), 2, dtype=torch.long)
    for batch in table.batches(max_edges=PREDICT_EDGES):
        chosen, places = batch.tokens.unique(return_inverse=True)
        logits = model(types.words[chosen].to(device), types.letters[chosen].to(device), places.to(device))
        scores, labels = parser.best_arcs(logits)
        heads = spanning_trees(scores)  # (B, n)
        of_heads = labels.cpu().gather(2, heads[..., None]).squeeze(2)
        found[batch.places] = torch.stack([heads, of_heads], dim=-1)
        if progress:
            progress(len(batch.tokens))
    return found


def spanning_trees(scores: Tensor) -> Tensor:
    """The best tree with one root of each sentence: `[batch, n, n + 1] -> [batch, n]` heads."""
    if not torch.isfinite(scores).all():
        raise ValueError("scores with nan or inf; expected finite numbers")
    scores = scores.cpu()
    heads = scores.argmax(-1)  # mostly a tree already
    for row in (~_are_trees(heads)).nonzero().flatten().tolist():
        table = F.pad(scores[row], (0, 0, 1, 0)).double().numpy()  # (n + 1, n + 1): the root's row is not looked at
        heads[row] = torch.from_numpy(best_tree(table))
    return heads


def trees_of(found: Tensor, sizes: Sequence[int], labels: Vocab) -> Iterator[tuple[list[int], list[str]]]:
    """Turn predictions, `[words, 2]`, into the heads and relations of each sentence."""
    names = list(labels)
    all_heads, numbers = (column.tolist() for column in found.unbind(1))
    start = 0
    for size in sizes:
        end = start + size
        yield all_heads[start:end], [names[number] for number in numbers[start:end]]
        start = end


def _are_trees(heads: Tensor) -> Tensor:
    """Whether heads are trees with one root: `[batch, n] -> [batch]`."""
    above = F.pad(heads, (1, 0))  # (B, n + 1): the root is above itself
    for _ in range(heads.shape[1].bit_length()):
        above = above.gather(1, above)  # twice as far up in each round
    return ((heads == 0).sum(1) == 1) & (above == 0).all(1)


def _without_self(scores: Tensor) -> Tensor:
    """Mask the scores of arcs, `[batch, n, n + 1]`, from a word to itself."""
    itself = torch.ones(scores.shape[1:], dtype=torch.bool, device=scores.device).tril(1).triu(1)
    return scores.masked_fill(itself, FORBIDDEN)
