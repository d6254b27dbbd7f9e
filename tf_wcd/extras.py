"""Packages that only a part of the library needs: extras of the installation."""

from __future__ import annotations

import importlib
from typing import NamedTuple


class Package(NamedTuple):
    """A package that need not be installed.

    Attributes:
        name: as its authors write it.
        extra: what brings it: ``pip install 'tf-wcd[extra]'``.
    """

    name: str
    extra: str


# By the module that is imported.
PACKAGES = {
    "grpc": Package("gRPC", "serving"),
    "grpc_health": Package("gRPC's health checks", "serving"),
    "keras_tuner": Package("KerasTuner", "tune"),
    "matplotlib": Package("Matplotlib", "plots"),
    "scipy": Package("SciPy", "datasets"),
    "sklearn": Package("scikit-learn", "sklearn"),
    "tensorboard": Package("TensorBoard", "tensorboard"),
    "tensorflow_serving": Package("TF-Serving's messages", "serving"),
    "tornado": Package("Tornado", "serving"),
}


def need(what: str, *modules: str) -> None:
    """Raises ModuleNotFoundError, with the extra to install, if a module is not there.

    Args:
        what: what needs them, as the message begins.
        modules: names of modules in `PACKAGES`.

    Example:

    >>> need("This example", "matplotlib")
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise  # it is there, and something else is not
            raise ModuleNotFoundError(message(what, module), name=module) from None


def message(what: str, module: str) -> str:
    """What is said of a module that is not there.

    Example:

    >>> message("`wcd serve`", "grpc")
    "`wcd serve` needs gRPC: pip install 'tf-wcd[serving]'. Received: no module 'grpc'"
    """
    package = PACKAGES[module]
    return f"{what} needs {package.name}: pip install 'tf-wcd[{package.extra}]'. Received: no module {module!r}"
