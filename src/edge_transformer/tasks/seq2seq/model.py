"""The model of sequence-to-sequence tasks: words in, words out, with any of the encoder-decoders."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from ...data.tensors import Vocab
from ...errors import DataError, UserError
from ...io.settings import require_positive
from ...io.streams import answered, never, unquoted
from ...nn.encoder import find_encoder
from ...nn.generation import EncoderDecoder, Generated, beam_search, greedy, sample
from ..base import DEFAULT_KIND, Progress, TaskModel, answering, encoder_config, model_options, require_list
from .questions import MAX_WORDS, Decoding, Line, Question, beams_for, read_lines, read_question

END, UNKNOWN, FIRST_WORD = 0, 1, 2  # numbers of the end of a sequence, of unknown words, of the first known word
DECODE_NUMBERS = 1 << 28  # floats in the caches of sequences decoded at once, if outputs are as long as in training
MAX_DECODE_NUMBERS = 1 << 30  # the same, if outputs reach their limit: 4 GB
DECODE_ROWS = 64  # sequences decoded at once, if memory allows
STREAM_ROWS = 256  # questions of a stream that are answered together


@dataclass(frozen=True)
class TranslatorOptions:
    """Settings of a translator's `model:` section besides those of its layers."""

    max_distance: int = 32  # relative positions are clipped here
    ends: bool = False  # Edge Transformer: the decoder's edges start with the embeddings of both their words

    def __post_init__(self) -> None:
        require_positive(self, "max_distance")


@dataclass(frozen=True)
class Translation:
    """A translation of a question."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    log_probability: float  # of the words and the end
    score: float  # what beam search ranks by: the log-probability over the length penalty
    finished: bool = True  # False if the limit came before the end
    unknown: tuple[str, ...] = ()  # unknown words of the question
    left_out: tuple[str, ...] = ()  # unknown punctuation at its end

    @property
    def text(self) -> str:
        """The words, joined by spaces."""
        return " ".join(self.target)

    def to_json(self) -> dict[str, Any]:
        """The translation as plain JSON values."""
        return {
            "source": " ".join(self.source),
            "target": self.text,
            "log_probability": round(self.log_probability, 6),
            "score": round(self.score, 6),
            **({} if self.finished else {"finished": False}),
            **({"unknown": list(self.unknown)} if self.unknown else {}),
            **({"left_out": list(self.left_out)} if self.left_out else {}),
        }


@dataclass(frozen=True)
class AnsweredLine:
    """A line and its translations, best first; none if the line is empty or cannot be read."""

    line: Line
    translations: tuple[Translation, ...]

    def to_json(
        self, several: bool = False, more: Callable[[Translation], dict[str, Any]] = lambda _: {}
    ) -> dict[str, Any]:
        """The best translation with the other fields of the question, which never replace ours; or the error.

        With `several` all of them are "candidates"; `more` adds fields to each.
        """
        fields = dict(self.line.question.fields)
        if self.line.error:
            return fields | {"error": str(self.line.error)}
        found = [each.to_json() | more(each) for each in self.translations]
        value = fields | (found[0] if found else {"source": "", "target": ""})
        if several:
            of_text = ("source", "unknown", "left_out")
            value["candidates"] = [{name: item for name, item in each.items() if name not in of_text} for each in found]
        return value


class Translator(TaskModel):
    """A sequence of words in; another one out, word by word."""

    task = "seq2seq"
    Options = TranslatorOptions
    reads = "pairs"

    def __init__(
        self,
        settings: Mapping[str, Any],
        source: Vocab,
        target: Vocab | None = None,
        *,
        lower_case: bool = False,
        source_end: bool = False,
        longest: int = MAX_WORDS // 2,
        only_targets: Iterable[str] = (),
    ) -> None:
        """Without `target` both sides share one vocabulary; `only_targets` are its words that no training source has.

        With `source_end` the model reads the end of a sequence after each source.
        `longest` is the length of the longest target in training; the default limit is twice that.
        """
        super().__init__()
        self.settings, self.lower_case, self.longest = dict(settings), lower_case, longest
        self.source, self.one_vocabulary, self.source_end = source, target is None, source_end
        self.only_targets = frozenset(only_targets)
        self.target = source if target is None else target
        options = model_options(settings, TranslatorOptions)
        config = encoder_config(settings, TranslatorOptions, self.reads)
        counts = len(source) + FIRST_WORD, None if target is None else len(target) + FIRST_WORD
        self.network: EncoderDecoder
        network = find_encoder(settings.get("kind", DEFAULT_KIND), self.reads).encoder
        if network.has_edge_states:
            for name, value in (("layers", config.layers), ("min_layers", config.min_layers)):
                if value == 1:
                    raise UserError(
                        f"model.{name}: found 1; expected 2 or more: with one layer no word sees the source"
                    )
            self.network = network(config, *counts, max_distance=options.max_distance, ends=options.ends)
        elif options.ends:
            raise UserError(f"model.ends: found a {settings['kind']} model; expected one that has edges")
        else:
            self.network = network(config, *counts)

    def forward(self, source: Tensor, target: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Logits of every word of the targets, `[batch, T, words]`; see `EncoderDecoder.forward`."""
        return self.network(source, target, source_mask)

    @property
    def has_edge_states(self) -> bool:
        """Whether states belong to pairs of nodes, not to nodes."""
        return self.network.has_edge_states

    def description(self) -> dict[str, Any]:
        return {
            "model": self.settings,
            "source": list(self.source),
            "target": None if self.one_vocabulary else list(self.target),
            "lower_case": self.lower_case,
            "source_end": self.source_end,
            "longest": self.longest,
            "only_targets": sorted(self.only_targets),
        }

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Self:
        target = description["target"]
        return cls(
            description["model"],
            Vocab(description["source"]),
            None if target is None else Vocab(target),
            lower_case=description["lower_case"],
            source_end=description.get("source_end", False),  # missing in older models
            longest=description["longest"],
            only_targets=description.get("only_targets", ()),  # missing in older models
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
        """Translate texts or lists of words, greedily or with a beam.

        For `length_penalty` see `generation.beam_search`; `limit` is the most words of a translation.
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
        """The `n_best` translations of each text or list of words by beam search, best first.

        By default, a beam for several translations holds at least 4 sequences.
        """
        return self._translate(
            self._asked(sources),
            Decoding(beams_for(n_best) if beams is None else beams, n_best, length_penalty, limit),
        )

    def sample(
        self,
        sources: Sequence[str | Sequence[str]],
        count: int = 1,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        seed: int = 1,
        limit: int | None = None,
    ) -> list[list[Translation]]:
        """Draw `count` random translations of each text or list of words.

        They depend only on the text, the seed and the options; see `generation.sample`.
        """
        if not count:
            raise UserError("found 0 samples; expected at least 1")
        how = Decoding(sample=count, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, limit=limit)
        return self._translate(self._asked(sources), how)

    def predict(self, inputs: Sequence[str | Sequence[str] | Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Translate texts, lists of words, or objects {"source": "..."}."""
        require_list(inputs, "text")
        questions = [self.question_of(value, f"input {number}") for number, value in enumerate(inputs)]
        return [found[0].to_json() for found in self._translate(questions, Decoding())]

    def predict_lines(
        self, lines: Iterable[str], source: str, pausing: Callable[[], bool] = never
    ) -> Iterator[dict[str, Any]]:
        """Translate lines of JSON, as `predict` takes it, or text; empty lines are skipped, unreadable ones raise."""
        for answer in self.translate_lines(map(unquoted, lines), source, pausing):
            if answer.line.error:
                raise answer.line.error
            if answer.translations:
                yield answer.translations[0].to_json()

    def translate_lines(
        self,
        lines: Iterable[str],
        source: str,
        pausing: Callable[[], bool] = never,
        how: Decoding | None = None,
    ) -> Iterator[AnsweredLine]:
        """Translate all lines, many together, or fewer if `pausing` says that the next one has not arrived.

        An unreadable line is returned with its error; the others are translated.
        """
        how = how or Decoding()
        asked = (self._within_memory(line, source, how) for line in read_lines(lines, self.is_known, source))
        return answered(asked, lambda waiting: self._answer(waiting, how), lambda line: 1, STREAM_ROWS - 1, pausing)

    def _within_memory(self, line: Line, source: str, how: Decoding) -> Line:
        """The line, or one with an error if decoding it would need too much memory."""
        excess = self._excess(line.question, how)
        if not excess:
            return line
        error = DataError(source, line.number, *excess)
        return Line(line.number, Question((), fields=line.question.fields), error)

    def _answer(self, lines: Sequence[Line], how: Decoding) -> Iterator[AnsweredLine]:
        found = iter(self._translate([line.question for line in lines if line.question.words], how))
        for line in lines:
            yield AnsweredLine(line, tuple(next(found)) if line.question.words else ())

    def _asked(self, sources: Sequence[str | Sequence[str]]) -> list[Question]:
        if isinstance(sources, str):
            raise UserError(f"found the text {sources!r}; expected a list of texts")
        return [self.question_of(value, f"text {number}") for number, value in enumerate(sources, start=1)]

    def question_of(self, value: Any, source: str) -> Question:
        """Read a question; see `questions.read_question`."""
        return read_question(value, self.is_known, source)

    def is_known(self, word: str) -> bool:
        """Whether a training source has the word."""
        cased = self._cased(word)
        return cased in self.source and cased not in self.only_targets

    def _cased(self, word: str) -> str:
        return word.lower() if self.lower_case else word

    # --- numbers --------------------------------------------------------------------------------------------------

    def source_numbers(self, words: Iterable[str]) -> list[int]:
        """The numbers of the words of a question."""
        return source_numbers(self.source, map(self._cased, words), self.source_end)

    def _limit(self, how: Decoding) -> int:
        return how.limit or min(2 * self.longest, MAX_WORDS)

    def _excess(self, question: Question, how: Decoding) -> tuple[str, str] | None:
        """What was found and what was expected, if decoding a question would need too much memory."""
        memory = self.excessive_memory(len(question.words), self._limit(how), how.beams) if question.words else None
        if memory is None:
            return None
        found = f"{len(question.words)} words, and up to {self._limit(how)} to decode with a beam of {how.beams}"
        return f"{found}: {memory}", "fewer words, a lower limit or a narrower beam"

    def excessive_memory(self, words: int, limit: int, beams: int = 1) -> str | None:
        """The size of the cache for a source of so many words and a target up to `limit`, if it is too large."""
        numbers = beams * self._cached_numbers(words + limit)
        if numbers <= MAX_DECODE_NUMBERS:
            return None
        gigabytes = 4 / 1e9  # a number has 4 bytes
        return f"a cache of {numbers * gigabytes:.0f} GB, more than {MAX_DECODE_NUMBERS * gigabytes:.0f} GB"

    def _translate(self, questions: Sequence[Question], how: Decoding) -> list[list[Translation]]:
        for number, question in enumerate(questions, start=1):
            excess = self._excess(question, how)
            if excess:
                raise DataError(f"text {number}", None, *excess)
        limit = self._limit(how)
        sources = [self.source_numbers(question.words) for question in questions]
        return [
            [self._translation(question, each) for each in generated]
            for question, generated in zip(questions, self.decode(sources, [limit] * len(sources), how), strict=True)
        ]

    def _translation(self, question: Question, found: Generated) -> Translation:
        return Translation(
            question.words,
            self.target_words(found.tokens),
            found.log_probability,
            found.score,
            found.finished,
            unknown=tuple(dict.fromkeys(word for word in question.words if not self.is_known(word))),
            left_out=question.left_out,
        )

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
        """Decode sequences of numbers, best first.

        `limits` has the most words of each, without the end; those decoded together share the largest limit.
        """
        how = how or Decoding()
        copies = how.sample or 1  # each sample is a row of its own, to bound memory
        device = next(self.parameters()).device
        found: list[list[Generated]] = [[] for _ in range(copies * len(sources))]
        with answering(self):
            for rows in self._decoded_together(sources, limits, how.beams, copies):
                numbers = [torch.tensor(sources[row // copies]) for row in rows]
                lengths = torch.tensor([len(each) for each in numbers])
                source = torch.nn.utils.rnn.pad_sequence(numbers, batch_first=True).to(device)
                mask = (torch.arange(source.shape[1]) < lengths[:, None]).to(device)
                limit = max(limits[row // copies] for row in rows)
                generators = (
                    [_generator(how.seed, row % copies, sources[row // copies]) for row in rows] if how.sample else []
                )
                answers = self._decode_batch(source, None if bool(mask.all()) else mask, limit, how, generators)
                for row, answer in zip(rows, answers, strict=True):
                    found[row] = answer
                if progress:
                    progress(len(rows))
        if not how.sample:
            return found
        return [[drawn for [drawn] in found[first : first + copies]] for first in range(0, len(found), copies)]

    def _decode_batch(
        self,
        source: Tensor,
        source_mask: Tensor | None,
        limit: int,
        how: Decoding,
        generators: Sequence[torch.Generator],
    ) -> list[list[Generated]]:
        options: dict[str, Any] = {"end": END, "limit": limit, "forbidden": [UNKNOWN]}
        if how.sample:
            options |= {"temperature": how.temperature, "top_k": how.top_k, "top_p": how.top_p}
            return [[each] for each in sample(self.network, source, source_mask, generator=generators, **options)]
        if how.beams == 1:
            return [[each] for each in greedy(self.network, source, source_mask, **options)]
        options |= {"beams": how.beams, "n_best": how.n_best, "length_penalty": how.length_penalty}
        return beam_search(self.network, source, source_mask, **options)

    def _decoded_together(
        self, sources: Sequence[Sequence[int]], limits: Sequence[int], beams: int, copies: int = 1
    ) -> Iterator[list[int]]:
        """Group rows of similar length, as many as memory allows. Row r belongs to source r // copies."""
        order = sorted(range(len(sources)), key=lambda row: (len(sources[row]), limits[row]))
        together: list[int] = []
        longest = limit = 0
        for row in (copies * row + copy for row in order for copy in range(copies)):
            length, most = len(sources[row // copies]), limits[row // copies]
            longest, limit = max(longest, length), max(limit, most)
            sequences = (len(together) + 1) * beams
            if together and (sequences > DECODE_ROWS or not self._have_room(sequences, longest, limit)):
                yield together
                together, longest, limit = [], length, most
            together.append(row)
        if together:
            yield together

    def _have_room(self, sequences: int, words: int, limit: int) -> bool:
        """Whether so many sequences fit into memory. Few outputs are longer than those of training."""
        usual = sequences * self._cached_numbers(words + min(limit, self.longest))
        return usual <= DECODE_NUMBERS and sequences * self._cached_numbers(words + limit) <= MAX_DECODE_NUMBERS

    def _cached_numbers(self, nodes: int) -> int:
        """The number of cached floats of one sequence."""
        config = self.network.config
        remembered = 4 * (config.layers - 1) * nodes**2 if self.has_edge_states else 2 * config.layers * nodes
        return config.dim * remembered


def _generator(seed: int, number: int, source: Sequence[int]) -> torch.Generator:
    """The random generator of one sample, independent of the other samples."""
    digest = hashlib.blake2b(repr((seed, number, list(source))).encode(), digest_size=4).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big"))


def source_numbers(known: Vocab, words: Iterable[str], with_end: bool) -> list[int]:
    """The numbers of the words of a source, and of the end of the sequence if a model reads it."""
    return [*word_numbers(known, words), *([END] if with_end else [])]


def word_numbers(known: Vocab, words: Iterable[str]) -> list[int]:
    """The numbers of words; unknown words share one."""
    numbers = (known.number(word) for word in words)
    return [UNKNOWN if number is None else number + FIRST_WORD for number in numbers]
