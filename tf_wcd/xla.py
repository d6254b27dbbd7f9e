"""How functions are compiled."""

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_wcd import compat, xla_cache

# XLA can compile a whole loop into one function where the data of an iteration are few. Without the calls between its
# operations an update of a small model takes a fraction of the time, and other work on the machine disturbs it less.
# The compiler's own limit is 1 kB; models larger than this limit gain more from several threads.
SMALL_LOOP_BYTES = 300_000


# What ``jit_compile="auto"`` means where it pays, and how samples are drawn; TF_WCD_XLA=0 in the environment is for
# whoever never wants to wait for the compiler.
BY_DEFAULT = os.environ.get("TF_WCD_XLA", "1") != "0"

# Measured on a CPU: what XLA's compiler takes, and what its code saves at each update of the loop that TensorFlow would
# run otherwise: a part for its operations, and a part for their size.
SECONDS_OF_COMPILING = 1.0
SECONDS_SAVED = 1e-4
SECONDS_SAVED_PER_FLOP = 3e-12

if folder := os.environ.get(xla_cache.VARIABLE):
    xla_cache.use_cache(folder)


def pays(updates: float, flops_per_update: float) -> bool:
    """Whether so many updates are worth the compiler's time.

    Example:

    >>> pays(1000, 1e5), pays(1000, 4e8)
    (False, True)
    """
    return updates * (SECONDS_SAVED + SECONDS_SAVED_PER_FLOP * flops_per_update) >= SECONDS_OF_COMPILING


def by_default(jit_compile: bool | None) -> bool:
    """Whether to compile with XLA; ``None`` for the default."""
    return BY_DEFAULT if jit_compile is None else jit_compile


def compiled(function: Callable[..., Any], jit_compile: bool | None = None, **options: Any) -> Any:
    """`tf.function` of a function without warnings that it is traced anew; with XLA by default."""
    jit = by_default(jit_compile)
    if jit:
        allow_small_loops()
    made = tf.function(function, jit_compile=jit, autograph=False, **options)
    return compat.without_retracing_warning(made)


def allow_small_loops() -> None:
    """Raises the limit for this process, unless the user has set options of the kind.

    XLA reads its options when it first compiles; a program that has used it before keeps the compiler's limit.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags:
        option = f"--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={SMALL_LOOP_BYTES}"
        os.environ["XLA_FLAGS"] = f"{flags} {option}".strip()
