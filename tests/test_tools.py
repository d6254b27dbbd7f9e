"""The tools for releases, as far as they can be tried without an installation."""

import numpy as np
import tensorflow as tf

from tf_wcd.random import uniform
from tools import random_battery, try_bounds

TEXT = """
        test_name   ,ntup, tsamples ,psamples,  p-value ,Assessment
   diehard_birthdays,   0,       100,     100,0.17231463,  PASSED
          sts_serial,   3,    100000,     100,0.99912345,   WEAK
"""


def test_lines_of_dieharder_are_read():
    first, second = random_battery.results(TEXT, "rows", 102)
    assert first["name"] == "diehard_birthdays"
    assert (second["tuple"], second["samples"], second["p"], second["verdict"]) == (3, 100000, 0.99912345, "WEAK")
    lines = random_battery.table([first, second]).splitlines()
    assert "| rows | 2 | 1 | 1 | 0 |" in lines
    assert lines[-1] == "rows, sts_serial (3): p = 0.999, WEAK"


def test_words_are_the_upper_bits_of_the_numbers():
    numbers = uniform(tf.constant([1, 2], tf.uint32), 0, [6]).numpy()
    words = np.frombuffer(random_battery.words(numbers), "uint32")
    assert len(words) == 3
    np.testing.assert_array_equal(words[0] & 0xFFFF, int(numbers[0] * 2**16))
    np.testing.assert_array_equal(words[1] >> 16, int(numbers[3] * 2**16))


def test_streams_never_repeat_a_draw():
    for make in random_battery.STREAMS.values():
        stream = make()
        one, two = next(stream).numpy(), next(stream).numpy()
        assert one.shape == two.shape
        assert (one != two).mean() > 0.99


def test_every_dependency_has_a_lowest_version():
    lowest = try_bounds.requirements()
    assert {"tensorflow", "keras", "tensorflow-probability"} <= set(lowest)
