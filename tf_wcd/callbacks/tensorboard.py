"""Samples, filters and free energies of a model while it trains, for TensorBoard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd import extras
from tf_wcd.arguments import check_integer
from tf_wcd.evaluation.exact import check_probabilities, kl_divergence
from tf_wcd.layer import RBMLayer
from tf_wcd.tables import table_of

MOST_ROWS = 2000  # of data, whose free energies and hidden units are computed


class RBMTensorBoard(keras.callbacks.Callback):
    """Writes samples, filters, histograms and free energies into event files, for TensorBoard to show.

    It needs the extra ``tensorboard``. ``tensorboard --logdir=logs`` shows them, while the model trains or afterwards:

    - scalars: all of Keras' logs (``loss``, ``reconstruction_error``, ``ess`` and what callbacks before this one have
      added) under ``training/`` and ``validation/``; ``free_energy/train``, ``free_energy/validation`` and
      ``free_energy/gap``, the second minus the first: it stays near zero while the model generalises, and grows when
      the model overfits its training examples; ``kl``, if there is a target;
    - images: ``samples`` of chains that start at random states, with the same random numbers each time, and
      ``filters``, the weights of the hidden units with the largest ones, negative ones blue and positive ones red;
    - histograms of the kernel, the biases, and E[h | x] of the training examples.

    Args:
        log_dir: folder of the event files.
        train: training examples ``[n, visible units]``; at most 2000 of them are used.
        validation: validation examples, for the gap of free energies.
        target: states and their probabilities, for the exact KL of a small problem.
        image_shape: height and width of the examples as pictures; if not given, the model's ``visible_shape``, or the
            shape nearest to a square. Columns beyond the picture (labels) are left out.
        every: epochs between two evaluations of the model; Keras' logs are written after every epoch.
        samples: number of samples in the picture.
        filters: number of filters in the picture.
        gibbs_steps: Gibbs steps of the samples' chains.
        seed: seed of the samples.

    Example:

    >>> import tempfile
    >>> states, _ = tf_wcd.datasets.load("BS16")
    >>> rbm = tf_wcd.RBMLayer(8, seed=0)
    >>> rbm.compile("sgd")
    >>> board = RBMTensorBoard(tempfile.mkdtemp(), train=states, samples=4, gibbs_steps=5)
    >>> history = rbm.fit(states, epochs=2, callbacks=[board], verbose=0)
    """

    def __init__(
        self,
        log_dir: str | Path = "logs",
        train: Any = None,
        validation: Any = None,
        target: tuple[Any, Any] | None = None,
        image_shape: tuple[int, int] | None = None,
        every: int = 1,
        samples: int = 64,
        filters: int = 64,
        gibbs_steps: int = 100,
        seed: int = 0,
    ) -> None:
        super().__init__()
        extras.need("`RBMTensorBoard`", "tensorboard", "matplotlib")
        if validation is not None and train is None:
            raise ValueError("The gap of free energies needs `train` as well as `validation`. Received: train=None")
        if target is not None:
            states, probabilities = target
            table = table_of(states, "states")
            target = table, check_probabilities(probabilities, len(table.values))
        self.log_dir = Path(log_dir)
        self.data = {name: x for name, x in (("train", train), ("validation", validation)) if x is not None}
        self.target = target
        self.image_shape = image_shape
        self.every = check_integer("every", every)
        self.samples = check_integer("samples", samples)
        self.filters = check_integer("filters", filters)
        self.gibbs_steps, self.seed = gibbs_steps, seed
        self._writer: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        if not isinstance(self.model, RBMLayer):
            raise ValueError(f"RBMTensorBoard shows one RBMLayer. Received: {type(self.model).__name__}")
        if self.model.built:
            self._shape()  # a wrong one is refused before the first update if possible
        self._writer = tf.summary.create_file_writer(str(self.log_dir))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        with self._writer.as_default(step=epoch):
            for name, value in (logs or {}).items():
                group, plain = ("validation", name[4:]) if name.startswith("val_") else ("training", name)
                tf.summary.scalar(f"{group}/{plain}", value)
            if epoch == 0 or (epoch + 1) % self.every == 0:
                self._look()
        self._writer.flush()

    def on_train_end(self, logs: Any = None) -> None:
        self._writer.close()

    def _look(self) -> None:
        model = self.model
        energies = {}
        for name, x in self.data.items():
            table = table_of(x, name)
            rows = model.checked_data(table._replace(values=table.values[:MOST_ROWS]), name)
            energies[name] = float(tf.reduce_mean(model.free_energy(rows)))
            tf.summary.scalar(f"free_energy/{name}", energies[name])
            if name == "train":
                tf.summary.histogram("hidden/mean of each unit given the training examples", model(rows))
        if len(energies) == 2:
            tf.summary.scalar("free_energy/gap", energies["validation"] - energies["train"])
        if self.target is not None:
            tf.summary.scalar("kl", kl_divergence(model, *self.target))
        for variable in (model.kernel, model.visible_bias, model.hidden_bias):
            tf.summary.histogram(f"weights/{variable.name}", variable.numpy())
        tf.summary.image("samples", self._picture_of_samples()[None])
        tf.summary.image("filters", self._picture_of_filters()[None])

    def _shape(self) -> tuple[int, int]:
        from tf_wcd import plots

        known = self.model.visible_shape
        own = known if known is not None and len(known) == 2 else plots.picture_shape(self.model.data_width)
        shape = self.image_shape or own
        if len(shape) != 2 or min(shape) < 1 or shape[0] * shape[1] > self.model.data_width:
            raise ValueError(
                "`image_shape` must be the height and width of a picture of at most "
                f"{self.model.data_width} pixels. Received: image_shape={shape!r}"
            )
        return shape

    # Matplotlib is imported only when pictures are drawn.

    def _picture_of_samples(self) -> np.ndarray:
        from tf_wcd import plots

        height, width = self._shape()
        states = self.model.sample(self.samples, gibbs_steps=self.gibbs_steps, seed=self.seed).numpy()
        states = states.reshape(self.samples, -1)
        low, high = self.model.data_unit.data_range
        if not np.isfinite(high):
            low, high = np.quantile(states, [0.01, 0.99])
        scaled = (states[:, : height * width] - low) / max(high - low, 1e-12)
        return plots.pixels(plots.image_sheet(scaled, (height, width), columns=16))

    def _picture_of_filters(self) -> np.ndarray:
        from tf_wcd import plots

        height, width = self._shape()
        kernel = self.model.kernel.numpy()[: height * width]
        largest = np.argsort(-np.square(kernel).sum(axis=0), kind="stable")[: self.filters]
        return plots.pixels(plots.image_sheet(kernel[:, largest].T, (height, width), columns=16, signed=True))
