"""The command `data info`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from ..errors import UserError, no_folder

if TYPE_CHECKING:
    from ..data.facts import TokenGraphFacts
    from ..data.links.facts import Leak
    from ..data.pairs.folder import PairFiles
    from ..data.trees.folder import TreebankData

MOST_LEAKS = 5  # relations shown
out = Console(highlight=False, markup=False, emoji=False)  # names are shown verbatim


def contents(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder of labelled graphs, a knowledge graph, pairs of texts, graphs over sentences, or trees.",
            show_default=False,
        ),
    ],
) -> None:
    """Describe the data in a folder: rows, lengths, labels, overlap of test with train, what train lacks.

    Labelled graphs also get the best possible accuracy, knowledge graphs what train gives away of other
    facts, pairs the sizes of vocabularies, and treebanks crossing arcs.

    Examples:

    - `edge-transformer data info families`

    - `edge-transformer data info data/umls`

    - `edge-transformer data info data/scan`

    - `edge-transformer data info data/cogs`

    - `edge-transformer data info data/ud/EWT`
    """
    from ..data.graphs.cogs import holds_cogs
    from ..data.graphs.edge_folder import holds_sentence_graphs
    from ..data.graphs.folder import holds_token_graphs
    from ..data.links.folder import holds_links
    from ..data.pairs.folder import all_pair_files

    if not folder.is_dir():
        raise UserError(f"{folder}: {no_folder(folder)}; expected a folder of data")
    if any(folder.glob("*.conllu")):
        _print_treebank(folder)
    elif holds_sentence_graphs(folder):
        _print_sentence_graphs(folder)
    elif holds_cogs(folder):
        _print_cogs(folder)
    elif holds_links(folder):
        _print_links(folder)
    elif pairs := all_pair_files(folder):
        for files in pairs:
            _print_pairs(files)
    elif holds_token_graphs(folder):
        _print_token_graphs(folder)
    elif any(folder.glob("*.jsonl")) or any(folder.glob("*.csv")):
        _print_graphs(folder)
    else:
        layouts = (
            "train.conllu, train.tsv, train.jsonl, train.nt or CLUTRR's *_train.csv, and files to test on beside it"
        )
        raise UserError(f"{folder}: found no data; expected {layouts} (docs/your-own-data.md)")


def _print_graphs(folder: Path) -> None:
    from ..data.facts import describe
    from ..data.relations.folder import asks_of, read_folder
    from ..io.progress import bar

    asks = asks_of(folder)
    with bar(f"reading {folder.name}") as reading:
        facts = describe(read_folder(folder, reading.advance, asks=asks))
    task = {"pairs": "relations", "nodes": "node-labels", "graph": "graph-labels"}[asks]
    print(f"{facts.name} ({facts.fingerprint}), rows of {task}")
    table = Table()
    for column in (
        "split",
        "rows",
        "distinct graphs",
        "chains",
        "nodes",
        "graph in train",
        "unseen label",
        "best accuracy",
    ):
        table.add_column(column, justify="left" if column == "split" else "right")
    for name, rows in facts.splits.items():
        fewest, most = rows.nodes
        table.add_row(
            name,
            f"{rows.rows:,}",
            f"{rows.graphs:,}",
            f"{rows.chains:,}",
            f"{fewest}" if fewest == most else f"{fewest}-{most}",
            f"{rows.in_train:,}",
            f"{rows.unanswerable:,}",
            "" if rows.best is None else f"{rows.best:.1%}",
        )
    out.print(table)
    _print_counts("relations in train", facts.relations)
    if facts.numbers:
        print(
            "numbers as answers in train: from {:.4g} to {:.4g}, mean {:.4g}".format(
                *facts.numbers[::2], facts.numbers[1]
            )
        )
    else:
        _print_counts("answers in train", facts.targets)


def _print_links(folder: Path) -> None:
    from ..data.links.facts import describe_links
    from ..data.links.folder import link_versions, read_links
    from ..io.progress import bar

    for version in link_versions(folder):
        with bar(f"reading {folder.name}") as reading:
            data = read_links(folder, reading.advance, training=False, testing=None, split=version)
        facts = describe_links(data)
        print(f"{facts.name} ({facts.fingerprint})")
        _print_facts(
            "facts",
            {
                part: {
                    "all": f"{rows.facts:,}",
                    "entities": f"{rows.entities:,}",
                    "relations": f"{rows.relations:,}",
                    "duplicates": f"{rows.duplicates:,}",
                    "in train": "" if part == "train" else f"{rows.in_train:,}",
                    "entities that are not in train": f"{rows.unseen_entities:,}",
                    "with an entity that is not in train": f"{rows.with_unseen_entity:,}",
                    "relations that are not in train": f"{rows.unseen_relations:,}",
                    "with a relation that is not in train": f"{rows.with_unseen_relation:,}",
                }
                for part, rows in facts.splits.items()
            },
        )
        for part, leaks in facts.leaks.items():
            _print_leaks(part, leaks, facts.splits[part].facts)
        _print_counts("relations in train", facts.relations)
        if data.entities:
            print(f"{facts.typed:,} entities with types, {facts.with_features:,} with features")
        if data.candidates:
            print(f"{len(data.candidates)} candidates: {', '.join(data.candidates)}")


def _print_leaks(part: str, leaks: Sequence[Leak], facts: int) -> None:
    """Print how many facts of a split train gives away, and the relations with most such facts."""
    from ..data.links.facts import RELIABLE

    if not leaks:
        return
    told = [
        f"{how} for {sum(way.facts for way in ways) / facts:.1%} (a reliable one for "
        f"{sum(way.reliable for way in ways) / facts:.1%})"
        for how, ways in (
            ("the other way round", [leak.inverse for leak in leaks]),
            ("the same way", [leak.copy for leak in leaks]),
        )
    ]
    print(
        f"{part}: train has a fact between the same nodes {', '.join(told)}; reliable: right in {RELIABLE:.0%} or more"
    )
    for leak in leaks[:MOST_LEAKS]:
        ways = [
            f"{way.facts:,} {how}, most by {way.by}, right in {way.reliability:.0%}"
            for way, how in ((leak.inverse, "the other way round"), (leak.copy, "the same way"))
            if way.facts
        ]
        print(f"  {leak.relation} {leak.facts:,}: {'; '.join(ways)}")
    if len(leaks) > MOST_LEAKS:
        print(f"  and {len(leaks) - MOST_LEAKS} relations more")


def _print_pairs(files: PairFiles) -> None:
    from ..data.facts import describe_pairs
    from ..io.progress import bar

    with bar(f"reading {files.split}") as reading:
        facts = describe_pairs(files.read(files.by_split, reading.advance, note=lambda note: print(f"note: {note}")))
    print(f"{files.split} ({', '.join(sorted({path.name for path in files.by_split.values()}))})")
    _print_facts(
        "rows",
        {
            part: {
                "all": f"{rows.rows:,}",
                "words of sources: mean, most": "{:.1f}, {}".format(*rows.source_words),
                "words of targets: mean, most": "{:.1f}, {}".format(*rows.target_words),
                **{f"with a target under {length} words": f"{count:,}" for length, count in rows.under.items()},
                "in train": f"{rows.in_train:,}",
                "with a source that is in train": f"{rows.source_in_train:,}",
                "with a word that is not in train": f"{rows.unseen:,}",
            }
            for part, rows in facts.splits.items()
        },
    )
    print(
        f"{facts.source_vocabulary:,} words in sources of train, {facts.target_vocabulary:,} in targets, "
        f"{facts.both:,} in both"
    )


def _print_cogs(folder: Path) -> None:
    from ..data.facts import describe_token_graphs
    from ..data.graphs.cogs import cogs_files, read_cogs_graphs
    from ..io.progress import bar

    files = cogs_files(folder, training=False)
    with bar(f"reading {folder.name}") as reading:
        facts = describe_token_graphs(read_cogs_graphs(files, reading.advance))
    _print_sentences(folder, files, facts)


def _print_token_graphs(folder: Path) -> None:
    from ..data.facts import describe_token_graphs
    from ..data.graphs.folder import read_split_graphs
    from ..data.jsonl import jsonl_files
    from ..io.progress import bar

    files = jsonl_files(folder, training=False, testing=False)
    with bar(f"reading {folder.name}") as reading:
        facts = describe_token_graphs(read_split_graphs(files, progress=reading.advance))
    _print_sentences(folder, files.values(), facts)


def _print_sentence_graphs(folder: Path) -> None:
    from ..data.facts import describe_token_graphs
    from ..data.graphs.edge_folder import read_rows, sentence_files
    from ..io.progress import bar
    from ..io.streams import counted

    files, corpus = sentence_files(folder)
    with bar(f"reading {folder.name}") as reading:
        rows = counted(read_rows(files, corpus.read if corpus else None), reading.advance)
        facts = describe_token_graphs((split, graph) for split, graph, _ in rows)
    _print_sentences(folder, files.values(), facts)


def _print_sentences(folder: Path, files: Iterable[Path], facts: Mapping[str, TokenGraphFacts]) -> None:
    from ..io.files import fingerprint

    print(f"{folder.resolve().name} ({fingerprint(files)})")
    _print_facts(
        "rows",
        {
            part: {
                "all": f"{rows.rows:,}",
                "words of a sentence: fewest, mean, most": "{}, {:.1f}, {}".format(*rows.words),
                **(
                    {"with a token that has several heads": f"{several:,}"}
                    if (several := rows.with_several_heads)
                    else {}
                ),
                "with a sentence that is in train": f"{rows.in_train:,}",
                "words that are not in train": f"{len(rows.unseen_words):,}",
                "with a word that is not in train": f"{rows.with_unseen_word:,}",
                **{f"labels of {column}": f"{count:,}" for column, count in rows.labels.items()},
                "with a label that is not in train": f"{rows.with_unseen_label:,}",
            }
            for part, rows in facts.items()
        },
    )
    for part, rows in facts.items():
        if len(rows.groups) > 1:
            _print_counts(f"groups in {part}", rows.groups)


def _print_treebank(folder: Path) -> None:
    from ..data.trees.folder import read_treebank, treebank_split_names, treebank_splits
    from ..io.progress import bar

    for split in treebank_split_names(folder):
        with bar(f"reading {folder.name}") as reading:
            data = read_treebank(folder, treebank_splits(folder), split, progress=reading.advance)
        _print_trees(data)


def _print_trees(data: TreebankData) -> None:
    from ..data.facts import describe_treebank

    facts = describe_treebank(data.splits)
    print(f"{data.name} ({data.fingerprint})")
    _print_facts(
        "sentences",
        {
            part: {
                "all": f"{trees.sentences:,}",
                "words": f"{trees.words:,}",
                "words of a sentence: mean, most": f"{trees.words / trees.sentences:.1f}, {trees.longest}",
                "with crossing arcs": f"{trees.crossing:,}",
                "in train": f"{trees.in_train:,}",
                "words that are not in train": f"{trees.unseen_words / trees.words:.1%}",
                "with a relation that is not in train": f"{trees.unseen_relations:,}",
            }
            for part, trees in facts.splits.items()
        },
    )
    _print_counts("relations in train", facts.relations)


def _print_facts(title: str, splits: Mapping[str, Mapping[str, str]]) -> None:
    """Print a line for each fact and a column for each split."""
    table = Table()
    table.add_column(title)
    lines: dict[str, list[str]] = {}
    for split, facts in splits.items():
        table.add_column(split, justify="right")
        for name, number in facts.items():
            lines.setdefault(name, [name]).append(number)
    for line in lines.values():
        table.add_row(*line)
    out.print(table)


def _print_counts(title: str, counts: Mapping[str, int]) -> None:
    print(f"{len(counts)} {title}: {', '.join(f'{name} {count:,}' for name, count in counts.items())}")
