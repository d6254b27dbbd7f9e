"""Everything public has a docstring and types."""

import importlib
import inspect

import pytest

MODULES = (
    "tf_wcd",
    "tf_wcd.callbacks",
    "tf_wcd.datasets",
    "tf_wcd.distribution",
    "tf_wcd.evaluation",
    "tf_wcd.mcmc",
    "tf_wcd.negative_phases",
    "tf_wcd.plots",
    "tf_wcd.regularizers",
    "tf_wcd.sequences",
    "tf_wcd.sklearn",
    "tf_wcd.units",
    "tf_wcd.negative_phases.points",
    "tf_wcd.negative_phases.weights",
    "serving",
)


def public_objects(module_name):
    """Functions and classes of a module that it offers, and the public methods that these classes define here."""
    module = importlib.import_module(module_name)
    listed = getattr(module, "__all__", None)
    names = listed or [name for name in vars(module) if not name.startswith("_")]
    for name in names:
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        if listed is None and value.__module__ != module_name:
            continue
        yield f"{module_name}.{name}", value
        if inspect.isclass(value):
            for method_name, method in vars(value).items():
                if not method_name.startswith("_") and inspect.isfunction(inspect.unwrap(method)):
                    yield f"{module_name}.{name}.{method_name}", method


def has_docstring(name, value):
    """A method may leave it to the class that it overrides."""
    return bool(inspect.getdoc(value)) or ".get_config" in name or ".from_config" in name


def untyped(value):
    signature = inspect.signature(inspect.unwrap(value))
    missing = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.annotation is parameter.empty and parameter.name not in ("self", "cls")
    ]
    return missing + (["return"] if signature.return_annotation is signature.empty else [])


@pytest.mark.parametrize("module", MODULES)
def test_everything_public_is_described(module):
    found = list(public_objects(module))
    assert found
    inherited = {}
    bare = []
    for name, value in found:
        if inspect.isclass(value):
            inherited[name] = value
        documented = has_docstring(name, value)
        owner = inherited.get(name.rpartition(".")[0])
        if not documented and owner is not None:
            method = name.rpartition(".")[2]
            documented = any(inspect.getdoc(getattr(base, method, None)) for base in owner.__mro__[1:])
        if not documented:
            bare.append(name)
    assert not bare


@pytest.mark.parametrize("module", MODULES)
def test_everything_public_is_typed(module):
    bare = {
        name: untyped(value)
        for name, value in public_objects(module)
        # TFP's metaclass puts methods of its own into its subclasses.
        if inspect.isfunction(inspect.unwrap(value))
        and not inspect.unwrap(value).__module__.startswith("tensorflow_probability")
        and untyped(value)
    }
    assert not bare


@pytest.mark.parametrize("module", MODULES)
def test_what_a_module_lists_is_there(module):
    found = importlib.import_module(module)
    assert found.__doc__
    for name in getattr(found, "__all__", ()):
        assert getattr(found, name) is not None, name
