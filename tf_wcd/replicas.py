"""Training on several replicas (devices or machines) under `tf.distribute`: all that they tell each other.

Each replica has a part of the batch and of the negative points. What an update needs of the others' parts comes from
the functions here; with one replica, and outside of a strategy, they give back what they are given. The sum of the
replicas' gradients is then the gradient of the whole batch, however it was divided.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_wcd import compat
from tf_wcd.random import subkey

# Inside one replica


def count() -> int:
    """Number of replicas that train together, asked inside one of them; 1 elsewhere."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def total(value: tf.Tensor) -> tf.Tensor:
    """The sum of all replicas' values.

    Example:

    >>> float(total(tf.constant(2.0)))
    2.0
    """
    if count() == 1:
        return value
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, value)


def gather(value: tf.Tensor, axis: int = -1) -> tf.Tensor:
    """All replicas' values, joined along an axis, in which they may differ in length."""
    if count() == 1:
        return value
    axis %= value.shape.rank
    gathered = tf.distribute.get_replica_context().all_gather(value, axis=axis)
    return tf.ensure_shape(gathered, [None if i == axis else n for i, n in enumerate(value.shape)])


def log_total(log_values: tf.Tensor) -> tf.Tensor:
    """log sum exp along the last axis, over the values of all replicas."""
    own = tf.reduce_logsumexp(log_values, axis=-1)
    if count() == 1:
        return own
    return tf.reduce_logsumexp(gather(own[..., None]), axis=-1)


def normalise(log_values: tf.Tensor) -> tf.Tensor:
    """Log-weights whose exponentials, over all replicas, sum to one along the last axis."""
    if count() == 1:
        return tf.nn.log_softmax(log_values, axis=-1)
    return log_values - log_total(log_values)[..., None]


def own_key(key: tf.Tensor) -> tf.Tensor:
    """A key for random numbers that no other replica draws."""
    if count() == 1:
        return key
    return subkey(key, tf.distribute.get_replica_context().replica_id_in_sync_group)


def own_part(rows: tf.Tensor) -> tf.Tensor:
    """This replica's part of rows that all replicas have."""
    if count() == 1:
        return rows
    return rows[tf.distribute.get_replica_context().replica_id_in_sync_group :: count()]


def own_rows(value: tf.Tensor) -> tf.Tensor:
    """This replica's rows (the last axis but one) of a state that all replicas divide evenly among themselves."""
    if count() == 1 or value.shape.rank < 2:
        return value
    rows = share_of_rows(value.shape[-2], tf.distribute.get_strategy(), "Persistent chains")
    first = tf.distribute.get_replica_context().replica_id_in_sync_group * rows
    return value[..., first : first + rows, :]


def for_logs(value: tf.Tensor) -> tf.Tensor:
    """A scalar that a training step returns: Keras averages those of several workers along an axis, which it needs."""
    if count() > 1 and compat.runs_in_several_processes(tf.distribute.get_strategy()):
        return tf.reshape(value, [1])
    return value


# Around all replicas


def whole_gradients(optimizer: keras.optimizers.Optimizer, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
    """What each replica gives to an optimizer, which then adds up what the replicas give.

    That is the replica's own part, but where the optimizer clips: the norm to clip is that of the sum.
    """
    clips = any(getattr(optimizer, name, None) for name in ("clipnorm", "clipvalue", "global_clipnorm"))
    if count() == 1 or not clips:
        return gradients
    # Each gives an equal part of the clipped sum: it is within the limits, so that it is not clipped again.
    return [gradient / count() for gradient in compat.clipped(optimizer, [total(g) for g in gradients])]


def share_of_rows(rows: int, strategy: tf.distribute.Strategy, what: str) -> int:
    """Rows that each replica has of so many in all.

    Raises:
        ValueError: if they cannot be divided evenly.
    """
    replicas = strategy.num_replicas_in_sync
    if rows % replicas:
        raise ValueError(
            f"{what} are divided evenly among the {replicas} replicas: their number must be a multiple of {replicas}. "
            f"Received: {rows}"
        )
    return rows // replicas


def local_parts(variable: keras.Variable, strategy: tf.distribute.Strategy) -> tuple[tf.Variable, ...]:
    """A variable's copies (or parts) on the devices of this process."""
    return strategy.experimental_local_results(variable.value)


def joined(variable: keras.Variable, strategy: tf.distribute.Strategy) -> np.ndarray:
    """A variable whose rows are spread over the replicas, as one array. All workers must ask for it together."""
    if strategy.num_replicas_in_sync == 1 or len(variable.shape) < 2:
        return np.asarray(variable.numpy())
    parts = tf.function(lambda: strategy.run(lambda: tf.identity(variable.value)), autograph=False)()
    return strategy.gather(parts, axis=len(variable.shape) - 2).numpy()


def spread(value: Any, variable: keras.Variable, strategy: tf.distribute.Strategy) -> None:
    """Gives each replica its own rows of an array."""
    if strategy.num_replicas_in_sync == 1 or len(variable.shape) < 2:
        variable.assign(value)
        return
    value = tf.convert_to_tensor(value)

    def assign() -> None:
        variable.value.assign(tf.cast(own_rows(value), variable.dtype))

    tf.function(lambda: strategy.run(assign), autograph=False)()


def distributed(dataset: tf.data.Dataset, strategy: tf.distribute.Strategy) -> tf.distribute.DistributedDataset:
    """Batches of a data set, each divided among the replicas in the order of its rows.

    Every worker runs through the whole data set and takes its rows of each batch, so that the batches are the same
    however many workers there are. A data set that says otherwise (`auto_shard_policy` FILE or OFF) is left to
    TensorFlow.
    """
    policies = tf.data.experimental.AutoShardPolicy
    if dataset.options().experimental_distribute.auto_shard_policy in (policies.FILE, policies.OFF):
        return strategy.experimental_distribute_dataset(dataset)
    replicas, plain = strategy.num_replicas_in_sync, tf.autograph.experimental.do_not_convert

    def here(context: tf.distribute.InputContext) -> tf.data.Dataset:
        local = replicas // context.num_input_pipelines
        first = context.input_pipeline_id * local

        def part(replica: tf.Tensor, batch: Any) -> Any:
            def cut(value: tf.Tensor) -> tf.Tensor:
                rows = tf.shape(value, out_type=tf.int64)[0]
                return value[replica * rows // replicas : (replica + 1) * rows // replicas]

            return tf.nest.map_structure(cut, batch)

        def parts(*batch: Any) -> tf.data.Dataset:
            return tf.data.Dataset.range(first, first + local).map(plain(lambda replica: part(replica, batch)))

        return dataset.flat_map(plain(parts)).prefetch(2 * local)

    return strategy.distribute_datasets_from_function(here)


class SeedGenerator(keras.random.SeedGenerator):
    """A Keras seed generator that counts inside replicas too: all of them count the same."""

    def __init__(self, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(seed, **kwargs)
        if tf.distribute.get_strategy().num_replicas_in_sync > 1:
            first: Any = self.state
            values, dtype = first.numpy(), first.dtype
            self.state: Any = keras.Variable(
                lambda shape, dtype: tf.constant(values, dtype),
                shape=(2,),
                dtype=dtype,
                trainable=False,
                aggregation="only_first_replica",
                name="seed_generator_state",
            )
