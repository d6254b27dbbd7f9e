"""An autoencoder, unrolled from a stack and fine-tuned, against principal components."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tf_wcd import plots
from trainers.runs.backpropagation import tune
from trainers.settings.dbn import AUTOENCODER, AUTOENCODER_RATE, SIDE
from trainers.settings.runs import fingerprint
from trainers.store.epochs import EpochRecords
from trainers.store.files import save_model
from trainers.studies.dbn.stacks import pretrained
from trainers.studies.dbn.study import Study


def autoencode(study: Study) -> None:
    """784-1000-500-250-30 unrolled and fine-tuned, against principal components with the same code size."""
    data, settings, folder = study.data, study.settings, study.folder
    dbn, seconds = pretrained(study, "autoencoder", AUTOENCODER, settings.seed)
    code = settings.units(AUTOENCODER.units)[-1]
    before = square_error(unrolled(dbn, study), data.x_test)
    trained = tune(
        lambda: unrolled(dbn, study),
        data.x,
        data.x,
        settings.batch_size,
        settings.tuning_epochs,
        settings.seed,
        folder / "checkpoints" / f"unrolled-{fingerprint(**settings.as_dict())}",
        study.plan,
        [EpochRecords(study.records("autoencoder"), "tuning")],
        study.verbose,
    )
    model = trained.model
    save_model(model.save, folder / "unrolled.keras")
    ours = square_error(model, data.x_test)
    components = principal_components(data.x, code)
    theirs = float(np.mean(np.square(components(data.x_test) - data.x_test)))
    print(
        f"Mean square error of a pixel, code of {code}: autoencoder {ours:.5f} ({before:.5f} before fine-tuning), "
        f"principal components {theirs:.5f}"
    )
    shown = data.x_test[:10]
    rows = np.stack([shown, model.predict(shown, verbose=0), components(shown)])
    sheet = plots.image_sheet(rows, (SIDE, SIDE), row_names=["data", "autoencoder", "PCA"])
    sheet.savefig(folder / "autoencoder.png")
    study.keep(
        "autoencoder",
        code_size=code,
        test_error_before_tuning=before,
        test_error=ours,
        test_error_of_pca=theirs,
        seconds=seconds + trained.seconds,
    )
    trained.forget()


def unrolled(dbn: Any, study: Study) -> keras.Model:
    """The network before fine-tuning, compiled."""
    settings = study.settings
    keras.utils.set_random_seed(settings.seed)
    model = dbn.autoencoder(linear_code=True)
    total = settings.tuning_epochs * -(-len(study.data.x) // settings.batch_size)
    schedule = keras.optimizers.schedules.CosineDecay(AUTOENCODER_RATE, total)
    model.compile(keras.optimizers.Adam(schedule), "binary_crossentropy")
    return model


def square_error(model: keras.Model, x: np.ndarray) -> float:
    """Mean square error of a pixel."""
    return float(np.mean(np.square(model.predict(x, batch_size=1000, verbose=0) - x)))


def principal_components(x: np.ndarray, count: int) -> Any:
    """The projection on the leading principal components of the training data, as a function of other data."""
    mean = x.mean(axis=0, dtype="float64")
    _, vectors = np.linalg.eigh(np.cov(x, rowvar=False, dtype="float64"))
    leading = vectors[:, -count:]
    return lambda data: mean + (data - mean) @ leading @ leading.T
