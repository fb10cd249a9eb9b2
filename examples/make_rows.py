"""Real rows for each objective: `python examples/make_rows.py KIND OUT.jsonl [--rows 1000] [--part train]`.

KIND
  pretrain   chapters of the King James Bible, one a row
  sft        questions of a reasoning-gym task with their right answers
  dpo        the same questions with a right and a wrong answer
  grpo       the same questions, with what its grader needs to score an answer

PART
  train      seven in eight of the chapters and questions
  held-out   the others, for a validation file that measures what was learnt and not what was memorised
  all        both; another seed draws other rows

The default task, sums and differences of two digits, has few questions and can be learnt by a small model;
`--task` names any other of reasoning-gym's.
"""

import argparse
import gzip
import json
import random
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import reasoning_gym

BOOK = Path(__file__).parents[1] / "benchmarks" / "data" / "kjv.txt.gz"
EASY: dict[str, dict[str, Any]] = {
    "basic_arithmetic": {
        "min_terms": 2,
        "max_terms": 2,
        "min_digits": 1,
        "max_digits": 1,
        "operators": ("+", "-"),
        "allow_parentheses": False,
        "allow_negation": False,
    }
}
PARTS = ("all", "train", "held-out")
HELD_OUT_OF = 8
DRAWN_FOR_A_ROW = 4 * HELD_OUT_OF


def main() -> None:
    """Write the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("kind", choices=["pretrain", "sft", "dpo", "grpo"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", choices=PARTS, default="all")
    parser.add_argument("--task", default="basic_arithmetic")
    options = parser.parse_args()
    made = rows(options.kind, options.rows, options.seed, options.task, options.part)
    write(options.out, made)


def write(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    """One JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def rows(
    kind: str, count: int, seed: int, task: str = "basic_arithmetic", part: str = "all"
) -> Iterator[dict[str, Any]]:
    """`count` rows, the same for the same seed; of the book, as many as there are."""
    if kind == "pretrain":
        chapters = gzip.decompress(BOOK.read_bytes()).decode().split("\n\n")
        random.Random(seed).shuffle(chapters)
        mine = (chapter for chapter in chapters if _is_of(part, chapter))
        yield from ({"text": chapter} for chapter in islice(mine, count))
        return
    entries = _entries(count, seed, task, part)
    wrong = _wrong_answers([entry["answer"] for entry in entries], seed)
    for entry, other in zip(entries, wrong, strict=True):
        question = {"role": "user", "content": entry["question"]}
        if kind == "grpo":
            yield {"messages": [question], "reasoning_gym": entry}
        elif kind == "sft":
            yield {"messages": [question, _answer(entry["answer"])]}
        else:
            yield {
                "input": {"messages": [question]},
                "preferred_output": [_answer(entry["answer"])],
                "non_preferred_output": [_answer(other)],
            }


def _entries(count: int, seed: int, task: str, part: str) -> list[dict[str, Any]]:
    size = count if part == "all" else DRAWN_FOR_A_ROW * count
    drawn: Iterable[dict[str, Any]] = reasoning_gym.create_dataset(
        task, size=size, seed=seed, **EASY.get(task, {})
    )
    mine = list(islice((entry for entry in drawn if _is_of(part, entry["question"])), count))
    if len(mine) < count:
        raise SystemExit(f"{task} has too few questions for {count} rows of part {part}")
    return mine


def _is_of(part: str, text: str) -> bool:
    """By the text alone, so that the same question is never in both parts, whatever the seed."""
    return part == "all" or (crc32(text.encode()) % HELD_OUT_OF == 0) == (part == "held-out")


def _answer(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def _wrong_answers(answers: list[str], seed: int) -> list[str]:
    """To each answer one that is right elsewhere, so that only knowing the question tells them apart."""
    chance = random.Random(seed)
    return [chance.choice([other for other in answers if other != answer]) for answer in answers]


if __name__ == "__main__":
    main()
