"""Curves as a picture: panels side by side, each of some curves over steps."""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

PANEL_WIDTH, HEIGHT, DOTS = 5.5, 4.2, 110


@dataclass(frozen=True, slots=True)
class Line:
    """One curve; lines of one ``colour`` belong together, and the first of them is labelled."""

    label: str | None
    points: Sequence[tuple[int, float]]
    colour: int


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves of one measure."""

    title: str
    measure: str
    lines: Sequence[Line]
    top: float | None = None


def draw_result(about: str, panels: Callable[[dict[str, Any]], Sequence[Panel]]) -> int:
    """The command of a report: the curves of the result that is named, as a picture beside it."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("result", type=Path)
    path = parser.parse_args().result
    draw(panels(json.loads(path.read_text())["found"]["curves"]), path.with_suffix(".png"))
    print(path.with_suffix(".png"))
    return 0


def draw(panels: Sequence[Panel], path: Path) -> None:
    """Write a PNG."""
    size = (PANEL_WIDTH * len(panels), HEIGHT)
    figure, every = plt.subplots(1, len(panels), figsize=size, layout="constrained", squeeze=False)
    for axes, panel in zip(every[0], panels, strict=True):
        for line in panel.lines:
            xs, ys = zip(*line.points, strict=True)
            axes.plot(xs, ys, color=f"C{line.colour}", label=line.label, lw=1)
        axes.set(title=panel.title, xlabel="step", ylabel=panel.measure)
        axes.set_ylim(top=panel.top)
        axes.grid(alpha=0.3)
        if any(line.label for line in panel.lines):
            axes.legend(fontsize=8)
    figure.savefig(path, dpi=DOTS)
    plt.close(figure)
