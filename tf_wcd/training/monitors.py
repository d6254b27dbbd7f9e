"""A warning of callbacks that watch the loss, which no RBM's likelihood can be read from."""

from __future__ import annotations

from typing import Any

import keras

from tf_wcd.arguments import list_of_callbacks

LOSSES = ("loss", "val_loss")


def watches_loss(callback: Any) -> bool:
    """Whether a callback acts on the loss, as Keras' own do by default.

    Example:

    >>> watches_loss(keras.callbacks.EarlyStopping())
    True
    >>> watches_loss(keras.callbacks.ModelCheckpoint("rbm.keras"))  # of every epoch, whatever its loss
    False
    """
    if isinstance(callback, keras.callbacks.ModelCheckpoint) and not callback.save_best_only:
        return False
    return getattr(callback, "monitor", None) in LOSSES


def monitor_doubts(model: Any, callbacks: Any) -> list[str]:
    """What to say of callbacks that act on a loss that need not fall as the model gets better; once for each model."""
    watching = [callback for callback in list_of_callbacks(callbacks) if watches_loss(callback)]
    if not watching or model.loss_is_objective or model.warned_of_monitor:
        return []
    model.warned_of_monitor = True
    names = ", ".join(sorted({f"{type(callback).__name__}(monitor={callback.monitor!r})" for callback in watching}))
    if model.data_spec().unit.finite:
        measure, name = "PseudoLikelihood", "pseudo_log_likelihood"
    else:  # which have no pseudo-likelihood
        measure, name = "AnnealedLikelihood", "log_likelihood"
    return [
        "The `loss` of a generative model is a difference of two free energies: it need not fall as the model gets "
        "better, and stopping at its minimum stops at once. "
        f"Put `tf_wcd.callbacks.{measure}(x_valid)` before the callback and give that `monitor={name!r}, mode='max'` "
        "(`ExactKL` with 'kl' and mode='min' where the distribution is known, 'val_accuracy' of labels). "
        f"Received: {names}"
    ]
