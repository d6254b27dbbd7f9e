"""The state of a negative phase (persistent chains, say) as variables, which replicas divide among themselves."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd import compat, replicas


@keras.saving.register_keras_serializable(package="tf_wcd")
class PhaseVariables(keras.layers.Layer):
    """Variables for the state of a negative phase, made when the first batch shows how many are needed.

    Under `tf.distribute` each replica has a part of the rows (the last axis but one) of every array. What is
    saved are all rows, so that a model can go on with another number of replicas.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trainable=False, **kwargs)
        self.by_name: dict[str, keras.Variable] = {}
        self._strategy = tf.distribute.get_strategy()

    def build(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """Makes variables for arrays of these shapes, all rows counted."""

        def own(shape: tuple[int, ...]) -> tuple[int, ...]:
            if len(shape) < 2:
                return tuple(shape)
            return (*shape[:-2], replicas.share_of_rows(shape[-2], self._strategy, "Persistent chains"), shape[-1])

        with self._strategy.scope():
            self.by_name = {
                name: keras.Variable(
                    "zeros",
                    shape=own(shape),
                    dtype=self.variable_dtype,
                    trainable=False,
                    name=name,
                    synchronization="on_read",  # one variable for each replica
                    aggregation="only_first_replica",
                )
                for name, shape in sorted(shapes.items())  # in one order, from whatever file they come
            }
        for variable in self.by_name.values():
            compat.track_variable(self, variable)
        self.built = True

    def start(self, state: dict[str, tf.Tensor]) -> None:
        """Takes over a state with all rows, and makes the variables if they are not there yet."""
        for name, value in state.items():
            if not tf.as_dtype(value.dtype).is_floating:
                raise ValueError(
                    f"The state of a negative phase is kept in {self.variable_dtype}. Received: {name!r} of the type "
                    f"{tf.as_dtype(value.dtype).name}"
                )
        if not self.built:
            self.build({name: tuple(value.shape) for name, value in state.items()})
        for name, variable in self.by_name.items():
            replicas.spread(state[name], variable, self._strategy)

    def values(self) -> dict[str, np.ndarray]:
        """The state with all rows."""
        return {name: replicas.joined(variable, self._strategy) for name, variable in self.by_name.items()}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays, all rows counted."""
        count = self._strategy.num_replicas_in_sync
        return {
            name: (*v.shape[:-2], v.shape[-2] * count, v.shape[-1]) if len(v.shape) > 1 else tuple(v.shape)
            for name, v in self.by_name.items()
        }

    def save_own_variables(self, store: Any) -> None:
        for name, value in self.values().items():
            store[name] = value

    def load_own_variables(self, store: Any) -> None:
        state = {name: np.asarray(store[name]) for name in store.keys()}  # noqa: SIM118 - it cannot be iterated
        shapes = self.shapes() if self.built else {name: value.shape for name, value in state.items()}
        if state.keys() != shapes.keys():
            raise ValueError(
                f"The layer has chains already, arrays {sorted(shapes)}: load the whole model, or the weights of a "
                f"layer with the same ones. Received: a file with arrays {sorted(state)}"
            )
        for name, value in state.items():
            if value.shape != shapes[name]:
                raise ValueError(f"The layer has chains of shape {shapes[name]}. Received: shape {value.shape}")
        if state:
            self.start(state)
