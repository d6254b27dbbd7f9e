"""MNIST (LeCun, Cortes, Burges) and Fashion-MNIST (Xiao, Rasul, Vollgraf), 28 x 28 in grey, loaded by Keras."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from types import ModuleType

import keras

from tf_wcd.datasets.download import OFFLINE_HINT, cache_folder
from tf_wcd.datasets.image_sets import Arrays, ImageSet


def _kept_by_keras(name: str, module: ModuleType, cached: str, sha256: dict[str, str]) -> ImageSet:
    """A set of images of `keras.datasets`.

    Args:
        name: the set's name.
        module: the module of `keras.datasets` that loads it.
        cached: pattern of its files in Keras' cache. They are removed if they are broken.
        sha256: as for `ImageSet`.
    """

    def read() -> Arrays:
        try:
            (x_train, y_train), (x_test, y_test) = module.load_data()
            arrays = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
            return images.check(arrays, "Keras' cache")
        except (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError) as error:
            for path in cache_folder().glob(cached):
                path.unlink(missing_ok=True)
            raise ValueError(
                f"{name} in Keras' cache was broken, and is removed. {OFFLINE_HINT} Received: {error}"
            ) from error
        except Exception as error:  # what Keras raises if a download fails; it removes that file itself
            raise OSError(f"Could not download {name}. {OFFLINE_HINT} Received: {error}") from error

    rows = {"train": 60000, "test": 10000}
    images = ImageSet(name=name, rows=rows, pixels=28 * 28, white=255, sha256=sha256, read=read)
    return images


MNIST = _kept_by_keras(
    "mnist",
    keras.datasets.mnist,
    "mnist.npz",
    sha256={
        "x_train": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        "y_train": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        "x_test": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        "y_test": "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    },
)

FASHION_MNIST = _kept_by_keras(
    "fashion_mnist",
    keras.datasets.fashion_mnist,
    "fashion-mnist/*-ubyte.gz",
    sha256={
        "x_train": "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
        "y_train": "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
        "x_test": "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
        "y_test": "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
    },
)
