"""Real rows for each objective: `python examples/make_rows.py KIND OUT.jsonl [--rows 1000] [--seed 1]`.

KIND
  pretrain   chapters of the King James Bible, one a row
  sft        questions of a reasoning-gym task with their right answers
  dpo        the same questions with a right and a wrong answer
  grpo       the same questions, with what its grader needs to score an answer

For a validation file take another seed. The default task, sums and differences of two digits, has few
questions and can be learnt by a small model; `--task` names any other of reasoning-gym's.
"""

import argparse
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def main() -> None:
    """Write the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("kind", choices=["pretrain", "sft", "dpo", "grpo"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--task", default="basic_arithmetic")
    options = parser.parse_args()
    write(options.out, rows(options.kind, options.rows, options.seed, options.task))


def write(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    """One JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def rows(
    kind: str, count: int, seed: int, task: str = "basic_arithmetic"
) -> Iterator[dict[str, Any]]:
    """`count` rows, the same for the same seed."""
    if kind == "pretrain":
        chapters = gzip.decompress(BOOK.read_bytes()).decode().split("\n\n")
        random.Random(seed).shuffle(chapters)
        yield from ({"text": chapter} for chapter in chapters[:count])
        return
    entries = list(reasoning_gym.create_dataset(task, size=count, seed=seed, **EASY.get(task, {})))
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


def _answer(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def _wrong_answers(answers: list[str], seed: int) -> list[str]:
    """To each answer one that is right elsewhere, so that only knowing the question tells them apart."""
    chance = random.Random(seed)
    return [chance.choice([other for other in answers if other != answer]) for answer in answers]


if __name__ == "__main__":
    main()
