"""Print how long files and functions are, and fail where the house's limits are broken.

    python scripts/house_figures.py

Limits: the median file at most 120 lines, no file over 400, nine functions in ten at most 45 lines.
"""

import ast
import subprocess
import sys
from pathlib import Path
from statistics import median, quantiles

LONGEST_FILE = 400
MEDIAN_FILE = 120
NINTH_DECILE_FUNCTION = 45


def main() -> int:
    """Print one line a group; 1 if a limit is broken."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    paths = [Path(name) for name in listed]
    groups = {
        "code": [path for path in paths if path.parts[0] != "tests"],
        "tests": [path for path in paths if path.parts[0] == "tests"],
    }
    return max(report(name, members) for name, members in groups.items())


def report(name: str, paths: list[Path]) -> int:
    """Print the figures of one group of files."""
    files = {path: len(path.read_text().splitlines()) for path in paths}
    functions = [length for path in paths for length in function_lengths(path)]
    longest = max(files, key=lambda path: files[path])
    ninth = quantiles(functions, n=10)[-1]
    print(
        f"{name:<6}{len(files)} files, median {median(files.values()):.0f} lines, "
        f"longest {files[longest]} ({longest}); "
        f"{len(functions)} functions, median {median(functions):.0f}, nine in ten at most {ninth:.0f}"
    )
    broken = (
        files[longest] > LONGEST_FILE
        or median(files.values()) > MEDIAN_FILE
        or ninth > NINTH_DECILE_FUNCTION
    )
    return int(broken)


def function_lengths(path: Path) -> list[int]:
    """Lines of each function in a file, docstrings included."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node.end_lineno - node.lineno + 1 for node in nodes if isinstance(node, kinds)]


if __name__ == "__main__":
    sys.exit(main())
