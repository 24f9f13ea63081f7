"""The registry of encoders: what `model.kind` of a preset may name, for each kind of input.

graphs  labelled graphs, for an `encoder.Encoder`
tokens  sequences of tokens, for an `encoder.Encoder`, which may be a `TokenEncoder`
pairs   pairs of sequences, for a `generation.EncoderDecoder`: both sides are one model
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from ..errors import UserError, suggestion

READS = ("graphs", "tokens", "pairs")


class Kind(NamedTuple):
    """A kind of encoder: its settings and its class, which is built from them."""

    config: type[Any]
    encoder: type[Any]


_KINDS: dict[str, dict[str, tuple[type | str, type | str]]] = {reads: {} for reads in READS}


def register_encoder(
    name: str, config: type | str, encoder: type | str, reads: str | Sequence[str] = ("graphs", "tokens")
) -> None:
    """Make an encoder known by a name, for some kinds of input, so that presets and models can name it.

    Args:
        name: what `model.kind` calls it.
        config: a frozen dataclass with at least what `layer.StackConfig` has.
        encoder: a class that is built from one. If it reads pairs, it also gets the numbers of source and of target
            tokens, the latter None where both are the same.
        reads: "graphs", "tokens" or "pairs", or several of them.

    `config` and `encoder` may be a text "module:class", which is imported when the encoder is first asked for.
    """
    for each in (reads,) if isinstance(reads, str) else reads:
        if each not in READS:
            raise ValueError(f"reads={each!r} is not known; choose some of {list(READS)}")
        if _KINDS[each].setdefault(name, (config, encoder)) != (config, encoder):
            raise ValueError(f"there is an encoder {name!r} of {each} already; choose another name")


def find_encoder(name: Any, reads: str) -> Kind:
    """The encoder with this name, for this kind of input."""
    if not isinstance(name, str) or name not in _KINDS[reads]:
        known = _KINDS[reads]
        raise UserError(f"model.kind: found {name!r}; expected one of {', '.join(known)}{suggestion(name, known)}")
    config, encoder = map(_imported, _KINDS[reads][name])
    return Kind(config, encoder)


def encoder_names(reads: str) -> tuple[str, ...]:
    """The names of all encoders for this kind of input."""
    return tuple(_KINDS[reads])


def _imported(place: type | str) -> Any:
    if not isinstance(place, str):
        return place
    module, _, name = place.partition(":")
    return getattr(import_module(module, __package__), name)


# A Transformer reads a graph as a story; one with a single set of weights is a Universal Transformer.
_BOTH = ("graphs", "tokens")
_CONFIG, _AWARE, _SEQ2SEQ = ".baselines.config:", ".baselines.relation_aware:", ".baselines.seq2seq:"
for _name, _reads, _config, _encoder in (
    ("edge", _BOTH, ".layer:EdgeTransformerConfig", ".encoder:EdgeTransformer"),
    ("edge", "pairs", ".layer:EdgeTransformerConfig", ".decoder:EdgeSeq2Seq"),
    ("rat", _BOTH, f"{_CONFIG}RelationAwareConfig", f"{_AWARE}RelationAwareTransformer"),
    ("rrat", _BOTH, f"{_CONFIG}RelationAwareConfig", f"{_AWARE}RelationUpdatingTransformer"),
    ("gat", "graphs", f"{_CONFIG}GraphAttentionConfig", ".baselines.gat:GraphAttentionNetwork"),
    ("transformer", "graphs", f"{_CONFIG}StoryConfig", ".baselines.story:StoryTransformer"),
    ("universal", "graphs", f"{_CONFIG}UniversalStoryConfig", ".baselines.story:StoryTransformer"),
    ("transformer", "tokens", f"{_CONFIG}SequenceConfig", ".baselines.tokens:SequenceTransformer"),
    ("universal", "tokens", f"{_CONFIG}UniversalSequenceConfig", ".baselines.tokens:SequenceTransformer"),
    ("bilstm", "tokens", f"{_CONFIG}BiLSTMConfig", ".baselines.tokens:BiLSTM"),
    ("transformer", "pairs", f"{_SEQ2SEQ}Seq2SeqTransformerConfig", f"{_SEQ2SEQ}TransformerSeq2Seq"),
    ("universal", "pairs", f"{_SEQ2SEQ}UniversalSeq2SeqTransformerConfig", f"{_SEQ2SEQ}TransformerSeq2Seq"),
):
    register_encoder(_name, _config, _encoder, _reads)
