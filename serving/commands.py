"""The service's commands: ``wcd export`` and ``wcd sample``."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np


def export_model(model: str, base_path: str, gibbs_steps: int | None = None, keep: int | None = None) -> Path:
    """Publishes a model that was saved by Keras as the next version of a folder.

    Args:
        model: the file of a Keras model; models of `tf_wcd` answer requests for samples.
        base_path: folder of the versions.
        gibbs_steps: passed on to the model's `export`; if not given, its default.
        keep: see `serving.publish`.
    """
    if not Path(model).exists():
        raise ValueError(f"`--model` must be a file saved by Keras, as model.keras. Received: {model}")
    import keras

    import tf_wcd  # noqa: F401 - registers the layers
    from serving.publish import publish

    arguments = {} if gibbs_steps is None else {"gibbs_steps": gibbs_steps}
    path = publish(keras.models.load_model(model), base_path, keep=keep, **arguments)
    print(f"Published: {path}")
    return path


def sample(
    server: str,
    model_name: str,
    count: int,
    seed: int | None,
    png: str,
    npy: str,
    timeout: float,
    max_rows: int = 1000,
    label: int | None = None,
) -> np.ndarray:
    """Asks a server for samples, of one class if a label is given, and writes them as a picture or an array."""
    import grpc

    from serving.attempts import SamplerError
    from serving.client import SamplerClient

    try:
        with SamplerClient(server, model_name, timeout=timeout, max_rows=max_rows) as client:
            samples = client.sample(count, seed) if label is None else client.conditional(label, count, seed)
    except SamplerError as error:
        hints = {
            grpc.StatusCode.UNAVAILABLE: ". Is `wcd serve` running there? --server is the host and its gRPC port",
            grpc.StatusCode.FAILED_PRECONDITION: "" if label is None else ". --label is for models with labels",
            grpc.StatusCode.NOT_FOUND: ". --model_name must be the one that the server was started with",
        }
        hint = hints.get(error.code(), "")
        raise ValueError(f"{server} answered {error.code().name}: {error}{hint}") from None
    print(f"{len(samples)} samples of {samples.shape[1]} units from {server}, mean {samples.mean():.4f}")
    keep_samples(samples, png, npy)
    return samples


def keep_samples(samples: np.ndarray, png: str, npy: str) -> None:
    """Writes samples as a picture, an array, or both; an empty path leaves one out."""
    if png:
        write_sheet(samples, png)
        print(f"Picture: {png}")
    if npy:
        np.save(npy, samples)
        print(f"Array: {npy}")


def write_sheet(samples: np.ndarray, path: str | Path) -> None:
    """Draws all samples side by side in one picture; states that do not form a rectangle are drawn as one row each."""
    from tf_wcd.plots import image_sheet, picture_shape

    rows, columns = picture_shape(samples.shape[1])
    across = math.ceil(math.sqrt(len(samples) * rows / columns))
    low, high = samples.min(), samples.max()
    scaled = (samples - low) / (high - low) if high > low else np.zeros_like(samples)
    image_sheet(scaled, (rows, columns), columns=across).savefig(path)
