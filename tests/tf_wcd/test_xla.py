"""How functions are compiled."""

import pytest
import tensorflow as tf

from tf_wcd.xla import compiled


@pytest.mark.parametrize(("make", "warned"), [(compiled, False), (tf.function, True)])
def test_many_models_are_no_reason_to_warn_of_tracing(make, warned, caplog):
    for _ in range(6):
        assert make(lambda x: x + 1.0)(tf.constant(1.0)) == 2.0
    assert ("retracing" in caplog.text) is warned
