"""Training that diverges is stopped, and leaves the model as it was before."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_wcd import replicas

SECONDS_BETWEEN_CHECKS = 0.25
CALLS_BETWEEN_CHECKS = 50  # with several replicas, all of which must check the same update


class DivergenceError(ArithmeticError):
    """Training made a parameter infinite, not a number, or so large that energies lose their meaning."""


class DivergenceGuard(keras.callbacks.Callback):
    """Checks the parameters a few times a second, and keeps a copy of all variables from when they were good.

    Copies stay on the device. A check costs about as much as one pass over the parameters. `RBMLayer.fit` puts a guard
    before the other callbacks, so that none of them saves a model that has diverged.

    Args:
        before_others: whether there are other callbacks, which may save the model after each epoch. The loss, measured
            before an epoch's last update, does not tell whether they may.
    """

    def __init__(self, before_others: bool = False) -> None:
        super().__init__()
        self._before_others = before_others
        self._copies: list[tf.Tensor] = []
        self._updates = self._calls = 0
        self._last = 0.0
        self._begun = False

    def on_train_begin(self, logs: Any = None) -> None:
        self._keep()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if not self._begun:
            self._begun = True
            self._keep()  # other callbacks may have restored a model when training began

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._calls += 1
        self.check()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        now = self._replicas > 1 or not math.isfinite((logs or {}).get("loss", 0.0))
        self.check(now or (self._before_others and not self._quick_check()))

    def on_train_end(self, logs: Any = None) -> None:
        self.check(now=True)
        self._copies = []

    @contextlib.contextmanager
    def single_update(self) -> Iterator[None]:
        """A context for one update outside of `fit`: parameters are checked before and after it, if it is time."""
        look = self._is_time()
        if look and self._copies:
            self.check(now=True)
        elif look:
            self._keep()
        self._calls += 1
        yield
        if look:
            self.check(now=True)

    def check(self, now: bool = False) -> None:
        """Checks the parameters, if it is time.

        Args:
            now: whether it is time or not.

        Raises:
            DivergenceError: if a parameter is not finite or beyond the model's `largest_parameter`, in an ensemble one
                of each member, or if the model has no finite normaliser any more. All variables are then what they were
                at the last check.
        """
        if not now and not self._is_time():
            return
        # Members of an ensemble do not touch each other: it goes on as long as one of them is sound.
        members = len(self.model.members)
        variables = self.model.trained_variables
        largest = self.model.largest_parameter
        good = [_is_within(variable.value, largest, members) for variable in variables]
        sound = bool(tf.reduce_any(tf.reduce_all(tf.stack(good), axis=0)))
        flaw = self.model.flaw() if sound else ""
        if sound and not flaw:
            self._keep()
            return
        culprits = [v.name for v, sound in zip(variables, good, strict=True) if not bool(tf.reduce_all(sound))]
        what = f"{flaw}," if flaw else f"{', '.join(culprits)} became infinite, NaN or larger than {largest:.2g}"
        reached = int(self.model.optimizer.iterations.numpy())
        for variable, copy in zip(self._variables(), self._copies, strict=True):
            variable.assign(copy)
        rate = float(tf.convert_to_tensor(self.model.optimizer.learning_rate))
        raise DivergenceError(
            f"Training diverged: {what} between updates {self._updates} and "
            f"{reached}. The model has been put back to update {self._updates}. The likely cause is a learning "
            f"rate that is too high (it was {rate:.3g}): try a tenth of it, or clip the gradient (`clipnorm` of the "
            "optimizer). Gaussian visible units need rates about a hundred times smaller than binary ones."
        )

    @property
    def _replicas(self) -> int:
        return self.model.distribute_strategy.num_replicas_in_sync

    def _is_time(self) -> bool:
        if self._replicas > 1:
            return self._calls % CALLS_BETWEEN_CHECKS == 0
        return time.monotonic() - self._last >= SECONDS_BETWEEN_CHECKS

    def _quick_check(self) -> bool:
        """Whether all parameters are certainly good: where a sum of sizes is within bounds, all its terms are."""
        largest = self.model.largest_parameter
        return all(float(tf.reduce_sum(tf.abs(v.value))) <= largest for v in self.model.trained_variables)

    def _variables(self) -> Sequence[Any]:
        everything = [*self.model.variables, *self.model.optimizer.variables]
        return [part for v in everything for part in replicas.local_parts(v, self.model.distribute_strategy)]

    def _keep(self) -> None:
        self._copies = [tf.identity(variable) for variable in self._variables()]
        self._updates = int(self.model.optimizer.iterations.numpy())
        self._last = time.monotonic()


def _is_within(value: tf.Tensor, largest: float, members: int) -> tf.Tensor:
    """Whether all numbers are at most so large, for each index of the first ``members`` axes; NaN never is."""
    return tf.reduce_all(tf.abs(value) <= largest, axis=list(range(members, value.shape.rank)))
