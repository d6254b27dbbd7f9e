"""The model y = x / 2 + 2 as TensorFlow 1 and TensorFlow 2 export it, with signatures that take `tf.Example`s."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

v1 = tf.compat.v1
FEATURES = {"x": tf.io.FixedLenFeature([1], tf.float32)}
METHODS = {"classify_x_to_y": "tensorflow/serving/classify", "regress_x_to_y": "tensorflow/serving/regress"}


def export_tf1(path: Path, add: float = 2.0) -> None:
    """A graph with a session, as in TensorFlow 1."""
    with v1.Session(graph=tf.Graph()) as session:
        a, b = v1.get_variable("a", initializer=0.5), v1.get_variable("b", initializer=add)
        examples = v1.placeholder(tf.string, [None], name="tf_example")
        x = tf.identity(v1.parse_example(examples, FEATURES)["x"], name="x")
        y = tf.identity(a * x + b, name="y")
        names = tf.constant([["small", "large"]]) + tf.strings.as_string(tf.cast(x, tf.int32))
        info = v1.saved_model.build_tensor_info
        signature = v1.saved_model.build_signature_def
        outputs = {"classify_x_to_y": {"scores": info(y)}, "regress_x_to_y": {"outputs": info(y)}}
        signatures = {
            name: signature({"inputs": info(examples)}, outputs[name], method) for name, method in METHODS.items()
        }
        signatures["with_labels"] = signature(
            {"inputs": info(examples)},
            {"classes": info(names), "scores": info(tf.concat([y, -y], 1))},
            METHODS["classify_x_to_y"],
        )
        signatures["serving_default"] = signature({"x": info(x)}, {"y": info(y)}, "tensorflow/serving/predict")
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()


def export_tf2(path: Path) -> None:
    """A module with functions: TensorFlow gives all of their signatures the method "predict"."""
    module = tf.Module()
    module.a, module.b = tf.Variable(0.5), tf.Variable(2.0)
    spec = [tf.TensorSpec([None], tf.string, name="inputs")]

    def function(output):
        def call(inputs):
            return {output: module.a * tf.io.parse_example(inputs, FEATURES)["x"] + module.b}

        return tf.function(call, input_signature=spec)

    module.predict = tf.function(
        lambda x: {"y": module.a * x + module.b}, input_signature=[tf.TensorSpec([None, 1], tf.float32, name="x")]
    )
    module.classify, module.regress = function("scores"), function("outputs")
    signatures = {
        "serving_default": module.predict,
        "classify_x_to_y": module.classify,
        "regress_x_to_y": module.regress,
    }
    tf.saved_model.save(module, str(path), signatures=signatures)
