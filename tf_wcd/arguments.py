"""Checks of numbers that users pass. Each error says what was received."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np


def is_integer(value: Any) -> bool:
    """Whether it is an integer of Python's or NumPy's; a truth value is none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_integer(name: str, value: Any, least: int = 1) -> int:
    """The argument of that name, if it is an integer of at least ``least``.

    Example:

    >>> check_integer("chains", np.int64(3))
    3
    >>> check_integer("chains", 2.5)
    Traceback (most recent call last):
    ValueError: `chains` must be an integer of at least 1. Received: chains=2.5
    """
    if not is_integer(value) or value < least:
        raise ValueError(f"`{name}` must be an integer of at least {least}. Received: {name}={value!r}")
    return int(value)


def check_variable_dtype(policy: keras.DTypePolicy) -> None:
    """Raises ValueError for variables of fewer than 32 bits: free energies, sums over all units, overflow in them.

    Example:

    >>> check_variable_dtype(keras.DTypePolicy("mixed_bfloat16"))  # its variables are float32
    >>> check_variable_dtype(keras.DTypePolicy("bfloat16"))
    Traceback (most recent call last):
    ValueError: Variables must be float32 or float64: use the policy 'mixed_bfloat16'. Received: dtype='bfloat16'
    """
    dtype = policy.variable_dtype
    if dtype not in ("float32", "float64"):
        mixed = dtype if dtype == "bfloat16" else "float16"
        raise ValueError(
            f"Variables must be float32 or float64: use the policy 'mixed_{mixed}'. Received: dtype={policy.name!r}"
        )


def check_seed(seed: Any) -> int | None:
    """The seed, if it is ``None`` or an integer of 64 bits, which is what the counters of random numbers hold."""
    if seed is not None and not (is_integer(seed) and -(2**63) <= seed < 2**63):
        raise ValueError(f"`seed` must be None or an integer of 64 bits. Received: seed={seed!r}")
    return None if seed is None else int(seed)


def check_positive(name: str, value: Any) -> float:
    """The argument of that name, if it is a finite number above zero.

    Example:

    >>> check_positive("share", 0)
    Traceback (most recent call last):
    ValueError: `share` must be a positive number. Received: share=0
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise ValueError(f"`{name}` must be a positive number. Received: {name}={value!r}")
    return float(value)


def list_of_callbacks(callbacks: Any) -> list[keras.callbacks.Callback]:
    """The callbacks that `fit` takes as none, one, several or a `CallbackList`.

    Example:

    >>> list_of_callbacks(None)
    []
    >>> len(list_of_callbacks(keras.callbacks.TerminateOnNaN()))
    1
    """
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return list(callbacks.callbacks)
    if isinstance(callbacks, list | tuple):
        return list(callbacks)
    return [callbacks] if callbacks else []
