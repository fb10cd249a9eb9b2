"""Turn Ambrose Bierce's *The Devil's Dictionary* (1911, public domain) into chat rows for the demo.

The one idea: a small model learns a strong voice fastest from many short answers to one fixed
kind of question, so a row is `Define: <word>` and one short definition in prose. Entries with
verse keep their prose; entries that are long, that quote, or that speak of race, religion or the
sexes are left out. The split is by a hash of the word, so it never depends on order or on chance.

The text is the one in Debian's package dict-devil (a dictzip file, which gzip reads):

    apt-get download dict-devil && dpkg -x dict-devil_*.deb devil
    python scripts/build_demo_data.py devil/usr/share/dictd/devil.dict.dz examples/data
"""

import argparse
import gzip
import hashlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

WORDS_MIN, WORDS_MAX = 8, 45
TRAIN_ROWS, VALID_ROWS = 300, 24

# `LAWYER, n.  One skilled in ...`: a capitalised headword, its part of speech, two spaces.
HEAD = re.compile(
    r"^([A-Z][A-Z'-]+), (?:n|adj|adv|v\.[ti]|v|pp|p\.p|x|interj)\.(?:pl\.)?\s+(.+)", re.DOTALL
)

# A demo should offend lawyers and cabbages, nobody's birth or creed: one hit leaves the entry out.
LEFT_OUT = re.compile(
    r"""\b(
    nigg\w* | negro\w* | african\w* | black | white\ man\w* | mulatto\w* | race | races
   | savage\w* | indian\w* | aborig\w* | chin[ae]\w* | mongol\w* | arab\w* | turk\w*
   | orient\w* | hindu\w* | irish\w* | german\w* | french\w* | spani\w* | scotch\w* | greek\w*
   | slave\w* | jew\w* | hebrew\w* | christ\w* | mahomet\w* | m[ou]sl[ie]m\w* | mormon\w*
   | heathen\w* | pagan\w* | infidel\w* | allah | koran | god | gods | jesus | bible | gospel
   | scripture\w* | church\w* | clerg\w* | priest\w* | pope\w* | monk\w* | nun | nuns
   | saint\w* | religio\w* | theolog\w* | pray\w* | wom[ae]n\w* | female\w* | feminin\w* | wife
   | wives | girl\w* | lad(?:y|ies) | maid\w* | bride\w* | sex\w* | mistress\w* | harlot\w*
   | widow\w* | marri\w* | mother-in-law | virgin\w* | chast\w* | friars? | bishop\w*
   | archbishop | persian\w* | portug\w* | ethnol\w* | trinit\w* | carmel\w* | virtuous
   | mothers? | daughters? | her | she | beaut\w* | hang\w* | suicid\w* | rape\w*
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)

# Entries that only lead into verse or stories, and so say nothing on their own.
INCOMPLETE = {"art", "story", "canonicals"}

# Slips of the keyboard in the electronic text, each checked against the sense of the sentence.
SLIPS = {
    "wealth of power": "wealth or power",
    "vilifed": "vilified",
    "The present your neighbor": "To present your neighbor",
    "with the teeth of a political knot": "with the teeth a political knot",
    "enemy of opponent": "enemy or opponent",
    "shelter from stores": "shelter from storms",
    "Saite, as": "Satire, as",
    "To weight probabilities": "To weigh probabilities",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One headword in lower case and its definition as one line of prose."""

    word: str
    definition: str

    @property
    def words(self) -> int:
        """Number of words of the definition."""
        return len(self.definition.split())

    def row(self) -> dict[str, object]:
        """Return the chat row of this entry."""
        return {
            "messages": [
                {"role": "user", "content": f"Define: {self.word}"},
                {"role": "assistant", "content": self.definition},
            ]
        }


def prose(text: str) -> str:
    """Join wrapped lines (a hyphen at the end of a line stays), drop emphasis, mend slips."""
    joined = re.sub(r"-\n\s*(?=\w)", "-", text)
    line = re.sub(r"\s+", " ", re.sub(r"[_{}]", "", joined)).strip()
    for wrong, right in SLIPS.items():
        line = line.replace(wrong, right)
    return line


def entries(text: str) -> list[Entry]:
    """Return every entry whose prose is exactly one paragraph; verse after it is skipped."""
    found: list[Entry] = []
    continued: set[int] = set()
    in_entry = False
    for paragraph in re.split(r"\n[ \t]*\n", text):
        head = HEAD.match(paragraph)
        if head:
            in_entry = True
            found.append(Entry(head[1].lower(), prose(head[2])))
        elif not paragraph.startswith(" ") and in_entry:
            # Either a second paragraph of this entry or a headword without a part of speech.
            continued.add(len(found) - 1)
            in_entry = False
    return [entry for place, entry in enumerate(found) if place not in continued]


def wanted(entry: Entry) -> bool:
    """Whether an entry is short, complete, in plain characters and harmless."""
    text = entry.definition
    return (
        entry.word not in INCOMPLETE
        and WORDS_MIN <= entry.words <= WORDS_MAX
        and text.endswith((".", "!", "?"))
        and text.isascii()
        and not re.search(r"[\[\]()\"]|: ", text)
        and not LEFT_OUT.search(f"{entry.word} {text}")
    )


def split(chosen: list[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Training and validation rows, the same on every machine; the shortest entries go first."""
    kept = sorted(chosen, key=lambda entry: (entry.words, entry.word))[: TRAIN_ROWS + VALID_ROWS]
    drawn = sorted(kept, key=lambda entry: hashlib.sha256(entry.word.encode()).digest())
    by_word = [
        sorted(part, key=lambda e: e.word) for part in (drawn[VALID_ROWS:], drawn[:VALID_ROWS])
    ]
    return by_word[0], by_word[1]


def write(path: Path, rows: list[Entry]) -> None:
    """One JSON object a line."""
    lines = (json.dumps(entry.row(), ensure_ascii=False) + "\n" for entry in rows)
    path.write_text("".join(lines), encoding="utf-8")


def main() -> int:
    """Read the dictionary, write `devils_dictionary.{train,valid}.jsonl`, say what was kept."""
    parser = argparse.ArgumentParser(description="Build the demo's data from Debian's dict-devil.")
    parser.add_argument("dictionary", type=Path, help="devil.dict.dz")
    parser.add_argument("target", type=Path, help="folder for the two files")
    arguments = parser.parse_args()
    all_entries = entries(gzip.decompress(arguments.dictionary.read_bytes()).decode("latin-1"))
    by_word = {entry.word: entry for entry in reversed(all_entries) if wanted(entry)}
    train, valid = split(list(by_word.values()))
    write(arguments.target / "devils_dictionary.train.jsonl", train)
    write(arguments.target / "devils_dictionary.valid.jsonl", valid)
    print(
        f"{len(all_entries)} entries, {len(by_word)} wanted: {len(train)} train, {len(valid)} valid"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
