"""The signatures of a served model, as a table.

Whatever depends on which signatures there are is made from it: the functions of the SavedModel with their types, the
shapes that it declares, the requests that warm a server up, the types that clients send, what the web page offers, and
the documentation. A new signature is one row here, and a method of the same name of
`tf_wcd.export.served_model.ServedModel` and of the clients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

DEFAULT_SIGNATURE = "serving_default"  # another name of the first row


@dataclasses.dataclass(frozen=True)
class Argument:
    """An input or output: one row for each row of a request.

    Attributes:
        name: its name.
        dtype: its type.
        columns: what the columns of a row are: "visible" or "hidden" units, or "classes"; ``None`` for one number.
        meaning: what it is, in a few words.
    """

    name: str
    dtype: str
    columns: str | None
    meaning: str

    def shape(self, widths: Mapping[str, int]) -> list[int]:
        """Shape with -1 for the rows, where layers have the given numbers of columns."""
        return [-1] if self.columns is None else [-1, widths[self.columns]]


@dataclasses.dataclass(frozen=True)
class Model:
    """What decides on the signatures that a model has.

    Attributes:
        single: whether it is one RBM whose visible units are the data and nothing else.
        log_partition: log Z where it is known.
        classes: number of labels; 0 without any.
    """

    single: bool
    log_partition: float | None
    classes: int = 0


@dataclasses.dataclass(frozen=True)
class Signature:
    """A row of the table.

    Attributes:
        name: name of the signature, and of the method that computes it.
        inputs: its inputs.
        outputs: its outputs.
        condition: which models have it, in words.
        exists: whether a model has it.
        documentation: one sentence.
    """

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    condition: str
    exists: Callable[[Model], bool]
    documentation: str


VISIBLE = Argument("visible", "float32", "visible", "states of the visible units")
MASK = Argument("mask", "float32", "visible", "1 where a unit is held, 0 elsewhere")
SEED = Argument("seed", "int64", None, "seed of the row's random numbers")
STEPS = Argument("steps", "int32", None, "number of Gibbs steps")
PROBABILITY = Argument("probability", "float32", "visible", "of the upper state; of other units the mean")
HIDDEN = Argument("hidden", "float32", "hidden", "expected states of the top hidden units")
FREE_ENERGY = Argument("free_energy", "float32", None, "free energy")
LOG_PROB = Argument("log_prob", "float32", None, "log-probability, in nats")
LABEL = Argument("label", "int64", None, "number of a class, from 0")
LABEL_LOG_PROB = Argument("log_prob", "float32", "classes", "log-probability of each class, in nats")

SIGNATURES: tuple[Signature, ...] = (
    Signature(
        "sample",
        (SEED,),
        (VISIBLE, PROBABILITY),
        "always",
        lambda model: True,
        "Draws from the model, by a chain that starts where the export says.",
    ),
    Signature(
        "gibbs",
        (VISIBLE, SEED, STEPS),
        (VISIBLE, PROBABILITY),
        "always",
        lambda model: True,
        "Runs a chain from the given states.",
    ),
    Signature(
        "clamp",
        (VISIBLE, MASK, SEED, STEPS),
        (VISIBLE, PROBABILITY),
        "always",
        lambda model: True,
        "Runs a chain in which some units are held at the given states.",
    ),
    Signature(
        "encode",
        (VISIBLE,),
        (HIDDEN,),
        "always",
        lambda model: True,
        "Gives the expected hidden units.",
    ),
    Signature(
        "free_energy",
        (VISIBLE,),
        (FREE_ENERGY,),
        "one RBM without labels",
        lambda model: model.single,
        "Gives the free energy.",
    ),
    Signature(
        "log_prob",
        (VISIBLE,),
        (LOG_PROB,),
        "one RBM without labels, small enough for an exact log Z",
        lambda model: model.single and model.log_partition is not None,
        "Gives the log-probability of states.",
    ),
    Signature(
        "conditional",
        (LABEL, SEED),
        (VISIBLE, PROBABILITY),
        "models with labels",
        lambda model: model.classes > 0,
        "Draws data of the given classes, by chains in which the labels are held.",
    ),
    Signature(
        "classify",
        (VISIBLE,),
        (LABEL_LOG_PROB, LABEL),
        "models with labels",
        lambda model: model.classes > 0,
        "Gives the log-probability of each class, and the most probable one.",
    ),
)


def signatures_of(model: Model) -> tuple[Signature, ...]:
    """The rows of the table that a model has.

    Example:

    >>> [row.name for row in signatures_of(Model(single=False, log_partition=None))]
    ['sample', 'gibbs', 'clamp', 'encode']
    """
    return tuple(row for row in SIGNATURES if row.exists(model))


def input_types() -> dict[str, str]:
    """Type of each input by its name, which is the same in all signatures.

    Example:

    >>> input_types()["seed"]
    'int64'
    """
    return {argument.name: argument.dtype for row in SIGNATURES for argument in row.inputs}


def signature_table() -> str:
    """The table in Markdown, for documentation.

    Example:

    >>> print(signature_table().splitlines()[2])
    | `sample`, also `serving_default` | `seed` int64 | `visible`, `probability` | always |
    """
    lines = ["| signature | inputs | outputs | exists |", "|---|---|---|---|"]
    for number, row in enumerate(SIGNATURES):
        name = f"`{row.name}`" + ("" if number else f", also `{DEFAULT_SIGNATURE}`")
        inputs = ", ".join(f"`{a.name}`" + ("" if a.dtype == "float32" else f" {a.dtype}") for a in row.inputs)
        lines.append(f"| {name} | {inputs} | {', '.join(f'`{a.name}`' for a in row.outputs)} | {row.condition} |")
    return "\n".join(lines)


def example_inputs(row: Signature, state: np.ndarray) -> dict[str, np.ndarray]:
    """Inputs of one row: the given state, and numbers that any model accepts."""
    values = {VISIBLE: state, MASK: np.zeros_like(state), SEED: 0, STEPS: 1, LABEL: 0}
    return {argument.name: np.asarray([values[argument]], argument.dtype) for argument in row.inputs}
