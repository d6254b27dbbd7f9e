"""Classify, Regress and MultiInference: `tf.Example`s in, classes and numbers out, as TF-Serving has them.

They are for models that have signatures with these methods; models of this library have other ones.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc
import numpy as np
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    input_pb2,
    model_pb2,
    regression_pb2,
)

from serving.admission import ByteBudget
from serving.cancellation import Cancellation
from serving.errors import ServingError, invalid
from serving.manager import ModelManager
from serving.servable import Servable

DEFAULT_SIGNATURE = "serving_default"
METHODS = {name: f"tensorflow/serving/{name}" for name in ("predict", "classify", "regress")}
KINDS = {"classify": "classification", "regress": "regression"}
OUTPUTS = {"classify": {"classes", "scores"}, "regress": {"outputs"}}
# Runs a graph: the model, its inputs (made when there is room for them), the tensors to fetch, deadline, cancellation.
Feeds = Callable[[], Mapping[str, np.ndarray]]
Run = Callable[[Servable, Feeds, Sequence[str], float | None, Cancellation | None], list[np.ndarray]]


class Inference:
    """The three methods.

    Args:
        manager: the models.
        run: runs a graph.
        budget: counts the memory of the examples.
        check_method_names: a signature has to have the method by its name. Exports of TensorFlow 2 name all of theirs
            "predict"; without the check, inputs and outputs say what a signature can answer.
    """

    def __init__(self, manager: ModelManager, run: Run, budget: ByteBudget, check_method_names: bool = False) -> None:
        self._manager, self._run, self._budget = manager, run, budget
        self._check_method_names = check_method_names

    def check_method(self, spec: model_pb2.ModelSpec, method: str) -> None:
        """Refuses a method that no signature of the model can answer, before any example is read."""
        with self._manager.lease(spec) as servable:
            faults = [_fault(signature, method, self._check_method_names) for signature in servable.signatures.values()]
            if all(faults):
                raise invalid(f"The model has no {KINDS[method]} signature")

    def classify(
        self,
        request: classification_pb2.ClassificationRequest,
        deadline: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> classification_pb2.ClassificationResponse:
        (answer,) = self._answers([("classify", _spec_of(request))], request.input, deadline, cancellation)
        return classification_pb2.ClassificationResponse(
            model_spec=answer.model_spec, result=answer.classification_result
        )

    def regress(
        self,
        request: regression_pb2.RegressionRequest,
        deadline: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> regression_pb2.RegressionResponse:
        (answer,) = self._answers([("regress", _spec_of(request))], request.input, deadline, cancellation)
        return regression_pb2.RegressionResponse(model_spec=answer.model_spec, result=answer.regression_result)

    def multi_inference(
        self,
        request: inference_pb2.MultiInferenceRequest,
        deadline: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> inference_pb2.MultiInferenceResponse:
        """Several signatures of one model, on the same examples."""
        if not request.tasks:
            raise invalid("Inference request must have at least one task")
        by_name = {METHODS[method]: method for method in KINDS}
        for task in request.tasks:
            if task.method_name not in by_name:
                text = f"Unsupported signature method_name: {task.method_name}"
                raise ServingError(grpc.StatusCode.UNIMPLEMENTED, text)
        tasks = [(by_name[task.method_name], _spec_of(task)) for task in request.tasks]
        if len({spec.name for _, spec in tasks}) > 1:
            raise invalid("All ModelSpecs in a MultiInferenceRequest must access the same model name.")
        names = [spec.signature_name or DEFAULT_SIGNATURE for _, spec in tasks]
        for name, count in collections.Counter(names).items():
            if count > 1:
                raise invalid(f"Duplicate evaluation of signature: {name}")
        return inference_pb2.MultiInferenceResponse(results=self._answers(tasks, request.input, deadline, cancellation))

    def _answers(
        self,
        tasks: Sequence[tuple[str, model_pb2.ModelSpec]],
        given: input_pb2.Input,
        deadline: float | None,
        cancellation: Cancellation | None,
    ) -> list[inference_pb2.InferenceResult]:
        with self._manager.lease(tasks[0][1]) as servable, self._budget.hold(_serialised_bytes(given)):
            signatures = [_signature(servable, spec, method, self._check_method_names) for method, spec in tasks]
            # Exports of TensorFlow 2 have an input for each signature: all of them get the examples.
            inputs = {signature.inputs["inputs"].name for signature in signatures}
            examples = _serialised(given)
            used = [
                {alias: info.name for alias, info in signature.outputs.items() if alias in OUTPUTS[method]}
                for (method, _), signature in zip(tasks, signatures, strict=True)
            ]
            fetches = sorted({name for names in used for name in names.values()})
            arrays = self._run(servable, lambda: dict.fromkeys(inputs, examples), fetches, deadline, cancellation)
        by_name = dict(zip(fetches, arrays, strict=True))
        results = []
        for (method, spec), names in zip(tasks, used, strict=True):
            outputs = {alias: by_name[name] for alias, name in names.items()}
            result = inference_pb2.InferenceResult(model_spec=model_spec(servable, spec.signature_name))
            if method == "classify":
                result.classification_result.CopyFrom(_classes(outputs, len(examples)))
            else:
                result.regression_result.CopyFrom(_values(outputs["outputs"], len(examples)))
            results.append(result)
        return results


def model_spec(servable: Servable, signature: str = "") -> model_pb2.ModelSpec:
    """The name and version of the model that answered."""
    spec = model_pb2.ModelSpec(name=servable.name, signature_name=signature)
    spec.version.value = servable.version
    return spec


def _spec_of(message: Any) -> model_pb2.ModelSpec:
    if not message.HasField("model_spec"):
        raise invalid("Missing ModelSpec")
    return message.model_spec


def _signature(
    servable: Servable, spec: model_pb2.ModelSpec, method: str, check_names: bool
) -> meta_graph_pb2.SignatureDef:
    """The signature that a request asks for, if it can answer the method."""
    name = spec.signature_name or DEFAULT_SIGNATURE
    signature = servable.signatures.get(name)
    if signature is None:
        raise invalid(f"No signature was found with the name: {name}")
    fault = _fault(signature, method, check_names)
    if fault is not None:
        raise invalid(fault)
    return signature


def _fault(signature: meta_graph_pb2.SignatureDef, method: str, check_names: bool) -> str | None:
    """Why a signature cannot answer a method; ``None`` if it can."""
    kind, wanted, found = KINDS[method], OUTPUTS[method], set(signature.outputs)
    if check_names and signature.method_name != METHODS[method]:
        return f"Expected {kind} signature method_name to be {METHODS[method]}. Was: {signature.method_name}"
    if len(signature.inputs) != 1:
        return "Expected one input Tensor."
    if "inputs" not in signature.inputs:
        return f"No {kind} inputs found. It has: {', '.join(signature.inputs)}"
    dtype = signature.inputs["inputs"].dtype
    if dtype != types_pb2.DT_STRING:
        return f"Expected {kind} inputs of DT_STRING, for examples. Got: {types_pb2.DataType.Name(dtype)}"
    if not found & wanted or len(found) > len(wanted):
        return f"Expected {kind} signature outputs among {sorted(wanted)}. Found: {', '.join(sorted(found))}"
    return None


def _serialised_bytes(given: input_pb2.Input) -> int:
    """Of the examples as byte strings, each of which has the context before it."""
    shared = given.example_list_with_context
    each = sys.getsizeof(b"") + shared.context.ByteSize()
    return given.ByteSize() + each * (len(shared.examples) or len(given.example_list.examples))


def _serialised(given: input_pb2.Input) -> np.ndarray:
    """The examples as byte strings; what they share, the context, is merged by writing it before each."""
    if given.WhichOneof("kind") == "example_list_with_context":
        context = given.example_list_with_context.context.SerializeToString()
        examples = given.example_list_with_context.examples
    else:
        context, examples = b"", given.example_list.examples
    if not examples:
        raise invalid("Input is empty")
    array = np.empty(len(examples), object)
    array[:] = [context + example.SerializeToString() for example in examples]
    return array


def _classes(outputs: Mapping[str, np.ndarray], rows: int) -> classification_pb2.ClassificationResult:
    for name, array in outputs.items():
        if array.ndim != 2:
            raise invalid(f"Expected Tensor shape: [batch_size num_classes] but got {list(array.shape)}")
        if array.dtype != (object if name == "classes" else np.float32):
            raise invalid(f"Expected {name} Tensor of {'DT_STRING' if name == 'classes' else 'DT_FLOAT'}.")
        if len(array) != rows:
            raise invalid(f"Expected {name} output batch size of {rows}. Got: {len(array)}")
    widths = {array.shape[1] for array in outputs.values()}
    if len(widths) > 1:
        raise invalid(f"Tensors class and score should match in dim_size(1). Got {sorted(widths)}")
    labels, scores = outputs.get("classes"), outputs.get("scores")
    result = classification_pb2.ClassificationResult()
    for row in range(rows):
        classifications = result.classifications.add()
        for column in range(widths.copy().pop()):
            entry = classifications.classes.add()
            if labels is not None:
                entry.label = labels[row, column].decode("utf-8", "replace")
            if scores is not None:
                entry.score = scores[row, column]
    return result


def _values(array: np.ndarray, rows: int) -> regression_pb2.RegressionResult:
    if array.ndim not in (1, 2) or array.shape[1:] not in ((), (1,)):
        text = "Expected output Tensor shape to be either [batch_size] or [batch_size, 1]"
        raise invalid(f"{text} but got {list(array.shape)}")
    if len(array) != rows:
        raise invalid(f"Input batch size did not match output batch size: {rows} vs {len(array)}")
    if array.dtype != np.float32:
        raise invalid("Expected output Tensor of DT_FLOAT.")
    result = regression_pb2.RegressionResult()
    for value in array.ravel().tolist():
        result.regressions.add(value=value)
    return result
