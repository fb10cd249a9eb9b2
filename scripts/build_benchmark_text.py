"""Turn the King James Bible (1611, public domain) into the text that `benchmarks.quality` trains on.

A chapter is its heading and its verses, a verse a line, a blank line between chapters. The text is that of
Debian's package bible-kjv-text, which the program of the package bible-kjv reads:

    apt-get download bible-kjv bible-kjv-text && for f in bible-kjv*.deb; do dpkg -x $f bible; done
    python scripts/build_benchmark_text.py bible benchmarks/data/kjv.txt.gz
"""

import argparse
import gzip
import re
import subprocess
import sys
from pathlib import Path

CHAPTERS, VERSES = 1189, 31102
VERSE = re.compile(r"^  \d+ ", re.MULTILINE)


def main() -> int:
    """Write the text; 1 if it is not whole."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, help="where both packages were unpacked")
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    said = subprocess.run(  # noqa: S603
        [
            (options.package / "usr/bin/bible").resolve(),
            *("-l0", "-p", f"{(options.package / 'usr/lib').resolve()}/", "gen1:1-rev22:21"),
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    verses = len(VERSE.findall(said))
    chapters = [chapter.strip() for chapter in VERSE.sub("", said).split("\n\n")]
    text = "\n\n".join(
        f"{heading}\n{body}" for heading, body in zip(chapters[::2], chapters[1::2], strict=True)
    )
    found = (len(chapters) // 2, verses)
    if found != (CHAPTERS, VERSES):
        sys.stderr.write(f"{found} chapters and verses, not {(CHAPTERS, VERSES)}\n")
        return 1
    options.target.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{options.target}: {len(text)} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main())
