"""Block Gibbs sampling as a transition kernel of TensorFlow Probability.

The kernel works wherever `tfp.mcmc` takes one: `sample_chain`, `ReplicaExchangeMC`, and the diagnostics of their output
(`effective_sample_size`, `potential_scale_reduction`).

A state is x alone, or the pair [x, h]. Replica exchange needs the pair: at the inverse temperature beta the fields are
multiplied by beta, and block Gibbs samples the tempered joint distribution of x and h exactly, while the tempered
marginal P(x)^beta has no block Gibbs sampler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tf_wcd.evaluation.exact import machine_of
from tf_wcd.machine import Machine
from tf_wcd.random import batch_source
from tf_wcd.sampling import gibbs_step
from tf_wcd.shapes import static_shape

if TYPE_CHECKING:
    from tf_wcd.layer import RBMLayer

State: TypeAlias = tf.Tensor | list[tf.Tensor]


class BlockGibbsResults(NamedTuple):
    """What `BlockGibbs` says of a state besides the state itself.

    Attributes:
        target_log_prob: ``[...]``, one number for each chain: the log of the density that the kernel leaves as it is,
            without its normalising constant. It is -F(x) for a state x and -Energy(x, h) for a pair, both at the
            inverse temperature of the chain.
        seed: int32 [2]: the seed of the step that led here; zeros at the start.
        proposed_state: always ``()``, since nothing is proposed and rejected; `tfp.mcmc.ReplicaExchangeMC` wants the
            field to be there, and puts NaN into it where it has exchanged states.
        proposed_results: as ``proposed_state``.
    """

    target_log_prob: tf.Tensor
    seed: tf.Tensor
    proposed_state: Any = ()
    proposed_results: Any = ()


class BlockGibbs(tfp.mcmc.TransitionKernel):
    """All hidden units given the visible ones, then all visible units given the hidden ones.

    A step is never rejected and has nothing to tune. The layer's variables are read at each step, so a chain inside a
    `tf.function` follows the layer as it learns.

    Args:
        rbm: a built `RBMLayer`.
        inverse_temperatures: ``[R]``, each at least 0: one for each replica, and the states then have a leading axis of
            length R. The replica at beta has the density exp(beta (b.x + c.h + x W h) - base(x) - base(h)), where base
            is zero for binary units and the quadratic term of Gaussian ones. ``None`` stands for the model itself,
            without such an axis.

    State:
        x ``[..., visible units]``, or the list [x, h] with h ``[..., hidden units]``, in the type of the layer's
        variables. Leading axes are independent chains. The h that comes in is not used: it is drawn anew given x.

    Example:

    >>> import tensorflow_probability as tfp
    >>> rbm = tf_wcd.RBMLayer(3, seed=0)
    >>> rbm.build((None, 5))
    >>> chains = tfp.mcmc.sample_chain(
    ...     20, tf.zeros([4, 5]), kernel=BlockGibbs(rbm), num_burnin_steps=10, trace_fn=None, seed=1)
    >>> chains.shape
    TensorShape([20, 4, 5])
    """

    def __init__(self, rbm: RBMLayer, inverse_temperatures: Any = None, name: str = "block_gibbs") -> None:
        machine_of(rbm)  # an unbuilt layer is an error now, not at the first step
        if inverse_temperatures is not None:
            inverse_temperatures = check_inverse_temperatures(inverse_temperatures)
        self._parameters = {"rbm": rbm, "inverse_temperatures": inverse_temperatures, "name": name}

    @property
    def parameters(self) -> dict[str, Any]:
        """Arguments of the constructor, for `copy`."""
        return self._parameters

    @property
    def inverse_temperatures(self) -> np.ndarray | None:
        return self._parameters["inverse_temperatures"]

    @property
    def name(self) -> str:
        return self._parameters["name"]

    @property
    def is_calibrated(self) -> bool:
        """True: the target is left exactly as it is, without a Metropolis correction."""
        return True

    def bootstrap_results(self, init_state: State) -> BlockGibbsResults:
        """The results that belong to a first state."""
        with tf.name_scope(self.name + "/bootstrap_results"):
            machine = self._machine()
            parts = self._parts(init_state, machine)
            rows = [self._rows(part) for part in parts]
            log_prob = -(machine.energy(*rows) if len(rows) == 2 else machine.free_energy(*rows))
            return BlockGibbsResults(tf.reshape(log_prob, static_shape(parts[0])[:-1]), tf.zeros([2], tf.int32))

    def one_step(
        self, current_state: State, previous_kernel_results: BlockGibbsResults, seed: Any = None
    ) -> tuple[State, BlockGibbsResults]:
        """Draws h given x, then x given h.

        Args:
            current_state: x, or [x, h].
            previous_kernel_results: not used; a step depends on the state alone.
            seed: as everywhere in TFP: an int32 [2] tensor, the same step for the same tensor; or an integer, which TFP
                mixes with TensorFlow's global seed, so that each call draws new numbers.

        Returns:
            The next state, in the form of ``current_state``, and its `BlockGibbsResults`.
        """
        with tf.name_scope(self.name + "/one_step"):
            seed = tfp.random.sanitize_seed(seed)
            key = tf.bitcast(seed, tf.uint32)
            machine = self._machine()
            parts = self._parts(current_state, machine)
            field = machine.hidden_field(self._rows(parts[0]))
            hidden, visible = gibbs_step(machine, field, batch_source(key), 0)
            new = [visible, hidden][: len(parts)]
            state = [tf.reshape(n, static_shape(old)) for n, old in zip(new, parts, strict=True)]
            log_prob = -(machine.energy(visible, hidden) if len(parts) == 2 else machine.free_energy(visible))
            results = BlockGibbsResults(tf.reshape(log_prob, static_shape(parts[0])[:-1]), seed)
            return state if len(parts) == 2 else state[0], results

    def _machine(self) -> Machine:
        machine = self._parameters["rbm"].machine()
        return machine if self.inverse_temperatures is None else machine.tempered(self.inverse_temperatures)

    def _rows(self, part: tf.Tensor) -> tf.Tensor:
        """``[chains, units]``, or ``[R, chains, units]`` for R replicas."""
        replicas = [] if self.inverse_temperatures is None else [len(self.inverse_temperatures)]
        return tf.reshape(part, [*replicas, -1, part.shape[-1]])

    def _parts(self, state: State, machine: Machine) -> list[tf.Tensor]:
        """The state as a list of one or two tensors, whose form is checked."""
        parts: list[tf.Tensor] = list(state) if isinstance(state, list | tuple) else [state]
        if isinstance(state, list | tuple) and len(parts) != 2:
            raise ValueError(
                "The state of a chain is a tensor x or the list [x, h]; replica exchange needs [x, h]. "
                f"Received: a list of length {len(parts)}"
            )
        parts = [tf.convert_to_tensor(part) for part in parts]
        for part, what, width in zip(parts, "xh", (machine.num_visible, machine.num_hidden), strict=False):
            if part.dtype != machine.kernel.dtype or part.shape.rank in (None, 0) or part.shape[-1] != width:
                raise ValueError(
                    f"`{what}` must have the type {machine.kernel.dtype.name} and the shape [..., {width}]. "
                    f"Received: {part.dtype.name}, shape {part.shape}"
                )
            replicas = machine.kernel.shape[0] if machine.kernel.shape.rank == 3 else None
            if replicas is not None and (part.shape.rank < 2 or part.shape[0] not in (None, replicas)):
                raise ValueError(
                    f"`{what}` must have a first axis of length {replicas}, one entry for each inverse temperature. "
                    f"Received: shape {part.shape}"
                )
        if len(parts) == 2 and not parts[0].shape[:-1].is_compatible_with(parts[1].shape[:-1]):
            raise ValueError(
                f"`x` and `h` must have the same leading axes. Received: shapes {parts[0].shape} and {parts[1].shape}"
            )
        return parts


def replica_exchange(
    rbm: RBMLayer, inverse_temperatures: Sequence[float], **options: Any
) -> tfp.mcmc.ReplicaExchangeMC:
    """Replica exchange (parallel tempering) with block Gibbs sampling inside, for models with separated modes.

    Replicas at lower inverse temperatures cross between modes, and exchange their states with their neighbours in such
    a way that each replica keeps its own distribution. The state is the pair [x, h].

    Args:
        rbm: a built `RBMLayer`.
        inverse_temperatures: ``[R]``, from 1 (the model itself: the replica whose states are returned) down to 0 or
            more. At 0 all units are independent. Neighbours must overlap for exchanges to be accepted: a good share,
            as ``is_swap_accepted_adjacent`` of the kernel's results has it, is 0.2 and more.
        **options: further arguments of `tfp.mcmc.ReplicaExchangeMC`: ``swap_proposal_fn``,
            ``state_includes_replicas``, ``validate_args``, ``name``.

    Returns:
        A `tfp.mcmc.ReplicaExchangeMC`.

    Example:

    >>> import tensorflow_probability as tfp
    >>> rbm = tf_wcd.RBMLayer(3, seed=0)
    >>> rbm.build((None, 5))
    >>> kernel = replica_exchange(rbm, [1.0, 0.5, 0.0])
    >>> x, h = tfp.mcmc.sample_chain(
    ...     20, [tf.zeros([4, 5]), tf.zeros([4, 3])], kernel=kernel, trace_fn=None, seed=1)
    >>> x.shape, h.shape
    (TensorShape([20, 4, 5]), TensorShape([20, 4, 3]))
    """
    machine_of(rbm)
    betas = check_inverse_temperatures(inverse_temperatures)
    if betas[0] != 1:
        raise ValueError(
            "The first inverse temperature must be 1: its replica samples the model itself. "
            f"Received: inverse_temperatures={betas.tolist()}"
        )
    return tfp.mcmc.ReplicaExchangeMC(
        target_log_prob_fn=None,
        # The base energy of real units is not tempered, or their density at beta = 0 would have no finite integral.
        tempered_log_prob_fn=lambda x, h: base_energy(rbm.machine(), x, h) - rbm.machine().energy(x, h),
        untempered_log_prob_fn=lambda x, h: -base_energy(rbm.machine(), x, h),
        inverse_temperatures=tf.constant(betas, rbm.machine().kernel.dtype),
        make_kernel_fn=lambda _: BlockGibbs(rbm, betas),
        **options,
    )


def base_energy(machine: Machine, x: tf.Tensor, h: tf.Tensor) -> tf.Tensor:
    """The part of the energy that no parameter of the fields multiplies: zero for binary units."""
    total = tf.zeros(static_shape(x)[:-1], x.dtype)
    for unit, states in ((machine.visible, x), (machine.hidden, h)):
        base = unit.total_base_energy(states)
        if base is not None:
            total += base
    return total


def check_inverse_temperatures(inverse_temperatures: Any) -> np.ndarray:
    """A vector, float64 ``[R]``, of finite numbers that are not negative."""
    betas = np.asarray(inverse_temperatures, "float64")
    if betas.ndim != 1 or not len(betas) or not np.isfinite(betas).all() or betas.min() < 0:
        raise ValueError(
            "`inverse_temperatures` must be a list of finite numbers, each at least 0. "
            f"Received: inverse_temperatures={inverse_temperatures!r}"
        )
    return betas
