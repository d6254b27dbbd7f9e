"""The picture of the packages: ``python -m docs.tools.architecture`` writes docs/images/architecture.svg."""

from __future__ import annotations

from html import escape
from pathlib import Path

TARGET = Path(__file__).parents[1] / "images" / "architecture.svg"
WIDTH, HEIGHT = 1000, 940
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
LINE = 18  # from one line of text to the next


def box(x: int, y: int, width: int, height: int, fill: str, stroke: str, title: str, *lines: str) -> str:
    """A rectangle with a title and lines of text in its middle."""
    middle, top = x + width / 2, y + (height - LINE * (len(lines) + 1)) / 2 + 14
    texts = [f'<text x="{middle}" y="{top}" class="title">{escape(title)}</text>'] + [
        f'<text x="{middle}" y="{top + LINE * (i + 1)}">{escape(line)}</text>' for i, line in enumerate(lines)
    ]
    frame = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{fill}" stroke="{stroke}"/>'
    return "\n".join([frame, *texts])


def arrow(*points: tuple[int, int]) -> str:
    """From what uses to what is used."""
    path = " L".join(f"{x} {y}" for x, y in points)
    return f'<path d="M{path}" fill="none" stroke="#555" stroke-width="1.6" marker-end="url(#to)"/>'


def inner(x: int, y: int, width: int, title: str, *lines: str, fill: str = "#ffffff") -> str:
    return box(x, y, width, 80, fill, BLUE, title, *lines)


PARTS = [
    box(30, 24, 290, 84, "#fdebd9", ORANGE, "trainers/", "wcd train, evaluate, reproduce, demo", "records, reports"),
    box(355, 24, 290, 84, "#e0f2ea", GREEN, "serving/", "publish, server, clients", "gRPC, REST, versions, batching"),
    box(680, 24, 290, 84, "#f6e4ef", PURPLE, "benchmarks/", "measurements against peers", "RESULTS.md"),
    f'<rect x="30" y="160" width="940" height="760" rx="12" fill="#f4f8fc" stroke="{BLUE}"/>',
    '<text x="50" y="188" class="package">tf_wcd/</text>',
    '<text x="128" y="188" class="left">the library: imports none of the above</text>',
    *(arrow((x, 108), (x, 156)) for x in (175, 500, 825)),
    inner(55, 210, 435, "judgement", "evaluation/ · callbacks/ · plots.py", "mcmc.py · distribution/"),
    inner(510, 210, 435, "export/", "SavedModels for TF-Serving", "a row's answer depends on that row alone"),
    inner(55, 330, 600, "models", "layer.py · ensemble.py · dbn/", "RBMLayer, RBMEnsemble, DBN: what users call"),
    inner(675, 330, 270, "datasets/", "the paper's problems, sets of images"),
    inner(
        55,
        450,
        890,
        "training/",
        "inputs/ · model.py · contrastive.py · loop.py · step.py · gradient.py",
        "many updates in one compiled call; variables, optimizer, state of the negative phase",
    ),
    inner(55, 570, 600, "negative_phases/", "points/ and weights/", "CD, WCD, PCD, WPCD, exact, fixed points, yours"),
    inner(675, 570, 270, "sampling/", "the Gibbs step and loop", "exact samples, annealing, passes"),
    inner(
        55,
        690,
        890,
        "values: pure functions of tensors",
        "units/ · machine.py · enumeration.py · data_checks.py",
        "cumulants, energies, conditionals, all states",
        fill="#dceaf6",
    ),
    inner(
        55,
        810,
        890,
        "foundations",
        "random/ · replicas.py · registry.py · files.py · arguments.py · shapes.py · xla.py · xla_cache.py · compat.py",
        "counter-based random numbers, replicas, things by name, atomic files",
        fill="#dceaf6",
    ),
    arrow((510, 250), (494, 250)),
    arrow((272, 290), (272, 326)),
    arrow((580, 290), (580, 326)),
    arrow((355, 410), (355, 446)),
    arrow((355, 530), (355, 566)),
    arrow((655, 610), (671, 610)),
    arrow((355, 650), (355, 686)),
    arrow((810, 650), (810, 686)),
    arrow((500, 770), (500, 806)),
]

STYLE = f"""
text {{ font-size: 13px; fill: #444; text-anchor: middle }}
.title {{ font-size: 16px; font-weight: 600; fill: #222 }}
.package {{ font-size: 18px; font-weight: 700; text-anchor: start; fill: {BLUE} }}
.left {{ text-anchor: start }}
"""
MARKER = (
    '<marker id="to" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 10 5 0 10z" fill="#555"/></marker>'
)


def picture() -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
            "<title>The packages of the repository and what uses what</title>",
            f"<defs>{MARKER}<style>{STYLE}</style></defs>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" rx="12" fill="#ffffff"/>',
            *PARTS,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    TARGET.write_text(picture())
