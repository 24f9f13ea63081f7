"""The model of sequence-to-sequence tasks: words in, words out, with any of the encoder-decoders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import torch
from torch import Tensor

from ..baselines import Kind
from ..baselines.seq2seq import Seq2SeqTransformerConfig, TransformerSeq2Seq, UniversalSeq2SeqTransformerConfig
from ..config import EdgeTransformerConfig, require_positive
from ..data.cfq import question_words
from ..data.clutrr import no_text
from ..data.token_graphs import json_of_line
from ..data.vocab import Vocab
from ..decoder import EdgeSeq2Seq
from ..errors import DataError, UserError
from ..generation import Generated, beam_search, greedy
from .base import Progress, TaskModel, encoder_config, model_options

MAX_WORDS = 512  # of one side; the decoder keeps a vector for each pair of words of both
MAX_BEAMS = 64
END, UNKNOWN, FIRST_WORD = 0, 1, 2  # numbers of the end of a sequence, of words not seen in training, of known ones
DECODE_NUMBERS = 1 << 28  # that the caches of sequences decoded at once may have together: bounds memory
DECODE_ROWS = 64  # sequences decoded at once, where memory allows
STREAM_ROWS = 256  # questions that are waited for, where they come fast

# Both sides are made together, so that there is no encoder to be built alone.
TRANSLATOR_KINDS = {
    "edge": Kind(EdgeTransformerConfig, cast(Any, EdgeSeq2Seq)),
    "transformer": Kind(Seq2SeqTransformerConfig, cast(Any, TransformerSeq2Seq)),
    "universal": Kind(UniversalSeq2SeqTransformerConfig, cast(Any, TransformerSeq2Seq)),
}


@dataclass(frozen=True)
class TranslatorOptions:
    """What a translator's `model:` section has besides the settings of its layers."""

    max_distance: int = 32  # relative positions are clipped here

    def __post_init__(self) -> None:
        require_positive(self, "max_distance")


@dataclass(frozen=True)
class Translation:
    """What a model makes of a question."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    log_probability: float  # of the words and the end
    score: float  # what beam search ranks by: the log-probability over the length penalty
    finished: bool = True  # False where the limit was reached before the end
    unknown: tuple[str, ...] = ()  # words of the question that the model never saw

    @property
    def text(self) -> str:
        """The words with spaces between them."""
        return " ".join(self.target)

    def to_json(self) -> dict[str, Any]:
        """The translation in plain values."""
        return {
            "source": " ".join(self.source),
            "target": self.text,
            "log_probability": round(self.log_probability, 6),
            "score": round(self.score, 6),
            **({} if self.finished else {"finished": False}),
            **({"unknown": list(self.unknown)} if self.unknown else {}),
        }


class Translator(TaskModel):
    """A sequence of words in; another one out, word by word."""

    Options = TranslatorOptions
    kinds = TRANSLATOR_KINDS

    def __init__(
        self,
        settings: Mapping[str, Any],
        source: Vocab,
        target: Vocab | None = None,
        *,
        lower_case: bool = False,
        longest: int = MAX_WORDS // 2,
    ) -> None:
        """Without `target` both sides have one vocabulary. `longest` is the length of the longest target in training:
        twice as many words are said at most, where nothing else is asked for.
        """
        super().__init__()
        self.settings, self.lower_case, self.longest = dict(settings), lower_case, longest
        self.source, self.one_vocabulary = source, target is None
        self.target = source if target is None else target
        options = model_options(settings, TranslatorOptions)
        config = encoder_config(settings, TranslatorOptions, TRANSLATOR_KINDS)
        counts = len(source) + FIRST_WORD, None if target is None else len(target) + FIRST_WORD
        self.network: EdgeSeq2Seq | TransformerSeq2Seq
        if isinstance(config, EdgeTransformerConfig):
            for name, value in (("layers", config.layers), ("min_layers", config.min_layers)):
                if value == 1:
                    raise UserError(
                        f"model.{name}: found 1; expected 2 or more: with one layer no word sees the source"
                    )
            self.network = EdgeSeq2Seq(config, *counts, max_distance=options.max_distance)
        else:
            self.network = TransformerSeq2Seq(config, *counts)

    def forward(self, source: Tensor, target: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Logits of every word of the targets, `[batch, T, words]`; see `EdgeSeq2Seq.forward`."""
        return self.network(source, target, source_mask)

    def description(self) -> dict[str, Any]:
        return {
            "model": self.settings,
            "source": list(self.source),
            "target": None if self.one_vocabulary else list(self.target),
            "lower_case": self.lower_case,
            "longest": self.longest,
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        target = description["target"]
        return cls(
            description["model"],
            Vocab(description["source"]),
            None if target is None else Vocab(target),
            lower_case=description["lower_case"],
            longest=description["longest"],
        )

    # --- asking ---------------------------------------------------------------------------------------------------

    def translate(
        self,
        sources: Sequence[str | Sequence[str]],
        *,
        beams: int = 1,
        length_penalty: float = 0.0,
        limit: int | None = None,
    ) -> list[Translation]:
        """The best translation of each text or list of words: greedy, or the best that a beam finds.

        `length_penalty` is that of `generation.beam_search`; `limit` is the most words that are said.
        """
        return [found[0] for found in self.candidates(sources, 1, beams, length_penalty, limit)]

    def candidates(
        self,
        sources: Sequence[str | Sequence[str]],
        n_best: int,
        beams: int | None = None,
        length_penalty: float = 0.0,
        limit: int | None = None,
    ) -> list[list[Translation]]:
        """The `n_best` translations of each text or list of words that a beam finds, best first."""
        if isinstance(sources, str):
            raise UserError(f"found the text {sources!r}; expected a list of texts")
        questions = [self.words_of(value, f"text {number}") for number, value in enumerate(sources, start=1)]
        return self._translate(questions, Decoding(n_best if beams is None else beams, n_best, length_penalty, limit))

    def predict(self, inputs: Sequence[str | Sequence[str] | Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Translations of texts, lists of words, or objects {"source": "..."}."""
        questions = [self.words_of(value, f"input {number}") for number, value in enumerate(inputs)]
        return [found[0].to_json() for found in self._translate(questions, Decoding())]

    def predict_lines(
        self, lines: Iterable[str], source: str, pausing: Callable[[], bool] = lambda: False
    ) -> Iterator[dict[str, Any]]:
        """Translations of lines: JSON as `predict` takes it where they begin with "{" or "[", else plain texts."""
        for found in self.translate_lines(lines, source, pausing):
            yield found[0].to_json()

    def translate_lines(
        self,
        lines: Iterable[str],
        source: str,
        pausing: Callable[[], bool] = lambda: False,
        how: Decoding | None = None,
    ) -> Iterator[list[Translation]]:
        """The same with all translations that are asked for; many lines at a time, and at once where `pausing` says
        that the next one is not there yet.
        """
        how = how or Decoding()
        waiting: list[tuple[str, ...]] = []
        try:
            for question in self._questions(lines, source):
                waiting.append(question)
                if len(waiting) >= STREAM_ROWS or pausing():
                    yield from self._translate(waiting, how)
                    waiting = []
        except DataError:  # the lines before the broken one were good questions
            yield from self._translate(waiting, how)
            raise
        yield from self._translate(waiting, how)

    def _questions(self, lines: Iterable[str], source: str) -> Iterator[tuple[str, ...]]:
        number = 0
        try:
            for number, line in enumerate(lines, start=1):
                text = line.removeprefix("\ufeff").strip() if number == 1 else line.strip()
                if text:
                    value = json_of_line(text, source, number) if text[0] in "{[" else text
                    yield self.words_of(value, source, number)
        except UnicodeDecodeError as error:
            raise no_text(source, number, error) from error

    def words_of(self, value: Any, source: str, line: int | None = None) -> tuple[str, ...]:
        """The words of a question: a text, a list of words, or an object with one of them as "source".

        A text is cut at its spaces, and around the punctuation of a word that is not known where all its parts are.
        """
        if isinstance(value, Mapping):
            if "source" not in value:
                raise DataError(
                    source, line, f"the fields {', '.join(map(str, value)) or 'none'}", 'one named "source"'
                )
            value = value["source"]
        if isinstance(value, str):
            words = [part for word in value.split() for part in self._parts(word)]
        elif isinstance(value, list | tuple) and all(
            isinstance(word, str) and word.split() == [word] for word in value
        ):
            words = list(value)
        else:
            raise DataError(source, line, repr(value)[:200], "a text, or a list of words without spaces")
        if not 0 < len(words) <= MAX_WORDS:
            raise DataError(source, line, f"{len(words)} words", f"1 to {MAX_WORDS}")
        return tuple(words)

    def _parts(self, word: str) -> list[str]:
        if self._cased(word) in self.source:
            return [word]
        parts = question_words(word)
        return parts if all(self._cased(part) in self.source for part in parts) else [word]

    def _cased(self, word: str) -> str:
        return word.lower() if self.lower_case else word

    # --- numbers --------------------------------------------------------------------------------------------------

    def source_numbers(self, words: Iterable[str]) -> list[int]:
        """The numbers of the words of a question."""
        return word_numbers(self.source, map(self._cased, words))

    def _translate(self, questions: Sequence[tuple[str, ...]], how: Decoding) -> list[list[Translation]]:
        limit = how.limit or min(2 * self.longest, MAX_WORDS)
        found = self.decode([self.source_numbers(words) for words in questions], [limit] * len(questions), how)
        return [
            [
                Translation(
                    words, self.target_words(each.tokens), each.log_probability, each.score, each.finished, unknown
                )
                for each in generated
            ]
            for words, generated in zip(questions, found, strict=True)
            for unknown in [tuple(dict.fromkeys(word for word in words if self._cased(word) not in self.source))]
        ]

    def target_words(self, numbers: Iterable[int]) -> tuple[str, ...]:
        """The words with these numbers."""
        return tuple(self.target.name(number - FIRST_WORD) for number in numbers)

    @torch.no_grad()
    def decode(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        how: Decoding | None = None,
        progress: Progress | None = None,
    ) -> list[list[Generated]]:
        """What the model says to sequences of numbers, best first. `limits` has the most words that each may get;
        of those that are decoded together, all get as many as the one with most.
        """
        how = how or Decoding()
        device = next(self.parameters()).device
        found: list[list[Generated]] = [[] for _ in sources]
        was_training = self.training
        self.eval()
        for rows in self._decoded_together(sources, limits, how.beams):
            lengths = torch.tensor([len(sources[row]) for row in rows])
            numbers = [torch.tensor(sources[row]) for row in rows]
            source = torch.nn.utils.rnn.pad_sequence(numbers, batch_first=True).to(device)
            mask = (torch.arange(source.shape[1]) < lengths[:, None]).to(device)
            only_real = None if bool(mask.all()) else mask
            limit = max(limits[row] for row in rows)
            if how.beams == 1:
                single = greedy(self.network, source, only_real, end=END, limit=limit, forbidden=[UNKNOWN])
                answers = [[each] for each in single]
            else:
                answers = beam_search(
                    self.network,
                    source,
                    only_real,
                    end=END,
                    limit=limit,
                    beams=how.beams,
                    length_penalty=how.length_penalty,
                    n_best=how.n_best,
                    forbidden=[UNKNOWN],
                )
            for row, answer in zip(rows, answers, strict=True):
                found[row] = answer
            if progress:
                progress(len(rows))
        self.train(was_training)
        return found

    def _decoded_together(
        self, sources: Sequence[Sequence[int]], limits: Sequence[int], beams: int
    ) -> Iterator[list[int]]:
        """Rows of about equal length, as many at a time as their caches leave room for."""
        order = sorted(range(len(sources)), key=lambda row: (len(sources[row]), limits[row]))
        together: list[int] = []
        longest = limit = 0
        for row in order:
            longest, limit = max(longest, len(sources[row])), max(limit, limits[row])
            numbers = (len(together) + 1) * beams * self._cached_numbers(longest + limit)
            if together and (len(together) >= DECODE_ROWS or numbers > DECODE_NUMBERS):
                yield together
                together, longest, limit = [], len(sources[row]), limits[row]
            together.append(row)
        if together:
            yield together

    def _cached_numbers(self, nodes: int) -> int:
        """How many numbers are remembered of one sequence."""
        config = self.network.config
        edges = isinstance(config, EdgeTransformerConfig)
        return config.dim * (4 * (config.layers - 1) * nodes**2 if edges else 2 * config.layers * nodes)


@dataclass(frozen=True)
class Decoding:
    """How translations are looked for."""

    beams: int = 1
    n_best: int = 1
    length_penalty: float = 0.0
    limit: int | None = None  # the most words; twice as many as the longest target in training has, if not given

    def __post_init__(self) -> None:
        if not 1 <= self.beams <= MAX_BEAMS:
            raise UserError(f"a beam of {self.beams}; expected 1 to {MAX_BEAMS}")
        if not 1 <= self.n_best <= self.beams:
            raise UserError(f"{self.n_best} translations of a beam of {self.beams}; expected 1 to {self.beams}")
        if self.limit is not None and not 1 <= self.limit <= MAX_WORDS:
            raise UserError(f"a limit of {self.limit} words; expected 1 to {MAX_WORDS}")


def word_numbers(known: Vocab, words: Iterable[str]) -> list[int]:
    """The numbers of words; all that are not known have the same."""
    numbers = (known.number(word) for word in words)
    return [UNKNOWN if number is None else number + FIRST_WORD for number in numbers]
