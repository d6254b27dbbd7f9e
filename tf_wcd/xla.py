"""How functions are compiled."""

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tf_wcd import compat

# XLA can compile a whole loop into one function where the data of an iteration are few. Without the calls between its
# operations an update of a small model takes a fraction of the time, and other work on the machine disturbs it less.
# The compiler's own limit is 1 kB; models larger than this limit gain more from several threads.
SMALL_LOOP_BYTES = 300_000


# What ``jit_compile="auto"`` means, and how samples are drawn. Compiling takes seconds, which pays from some hundred
# updates on; whoever trains many tiny models for a moment each may set it to False, or TF_WCD_XLA=0 in the environment.
BY_DEFAULT = os.environ.get("TF_WCD_XLA", "1") != "0"


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
