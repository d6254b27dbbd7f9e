"""The reader of large JSON agrees with Python's own parser, whatever the size of its steps."""

import json
import tracemalloc

import numpy as np
import pytest

from serving import json_reader, json_tensors
from serving.errors import ServingError
from serving.json_reader import Column, ParseError, Reader, Unusable


def plain(value):
    """Arrays as lists again."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


def random_numbers(rng, depth):
    if depth == 0:
        return [int(rng.integers(-300, 300)), float(rng.normal()), int(rng.integers(2**62))][rng.integers(3)]
    first = random_numbers(rng, depth - 1)
    return [fill(rng, first) for _ in range(rng.integers(1, 6))]


def fill(rng, like):
    """Other numbers in the same shape and of the same kind."""
    if isinstance(like, list):
        return [fill(rng, item) for item in like]
    return float(rng.normal()) if isinstance(like, float) else int(rng.integers(0, 2))


@pytest.mark.parametrize("step", [2**16, 7, 50])
def test_arrays_are_those_of_json(monkeypatch, step):
    monkeypatch.setattr(json_reader, "STEP", step)
    monkeypatch.setattr(json_reader, "BLOCK", 3)
    rng = np.random.default_rng(step)
    for indent in (None, 2):
        for _ in range(50):
            document = {str(i): random_numbers(rng, int(rng.integers(0, 4))) for i in range(4)}
            document |= {"text": 'a"\\\u20ac,[', "none": None, "inside": {"true": True, "empty": []}}
            body = json.dumps(document, indent=indent).encode()
            assert plain(Reader(body).document()) == document


def test_numbers_take_little_memory():
    zeros_and_ones = Reader(b"[" + b"0,1," * 50_000 + b"1]").document()
    assert zeros_and_ones.dtype == np.uint8
    assert zeros_and_ones.shape == (100_001,)
    assert Reader(b"[-1, 300]").document().dtype == np.int16


def test_integers_stay_exact(monkeypatch):
    monkeypatch.setattr(json_reader, "STEP", 30)
    for numbers in ([-1, 2**62 + 1], [-1] * 9 + [2**62 + 1] * 9, [255] * 9 + [-(2**63)] * 3):
        assert Reader(json.dumps(numbers).encode()).document().tolist() == numbers


@pytest.mark.parametrize(
    ("text", "ragged"),
    [(b"[[1, 2], [3]]", True), (b"[1, [2]]", True), (b'["a", 1]', False), (b"[1, null]", False),
     (b"[1, true]", False), (b"[[true], [0]]", False),
     (b"[" + b"1," * 99 + b"false]", False), (b"[{}]", False),
     (b"[18446744073709551616]", False), (b'[[1], ["a"]]', False)],
)  # fmt: skip
def test_arrays_that_are_no_tensors(text, ragged):
    value = Reader(text).document()
    assert isinstance(value, Unusable)
    assert value.ragged is ragged


@pytest.mark.parametrize(
    "text",
    [b"", b"[", b"[1", b"[1,", b"[1,]", b"[1,,2]", b"[,1]", b"[1 2]", b"[01]", b"[1.]", b"[+1]", b"[1]]", b"{",
     b'{"a"}', b'{"a": }', b'{"a": 1,}', b"{1: 2}", b'"a', b'"\\x"', b"nul", b"[1}", b"[" * 65 + b"]" * 65, b"\xff",
     b'"\xff"'],
)  # fmt: skip
def test_what_is_no_json(text):
    with pytest.raises(ParseError, match="at offset"):
        Reader(text).document()


def nested(members):
    """An object with as many members, most of which are empty objects in others."""
    inside = ",".join(f'"{i}": {{}}' for i in range(100))
    return "{" + ",".join(f'"{i}": {{{inside}}}' for i in range(members // 101)) + "}"


@pytest.mark.parametrize(
    "text",
    [
        "{" + ",".join(f'"{i}": 1' for i in range(1001)) + "}",
        nested(1200),
        f'{{"a": {nested(600)}, "b": {nested(600)}}}',
        f'{{"a": {nested(600)}, "a": {nested(600)}}}',
    ],
)
def test_members_are_of_bounded_number(monkeypatch, text):
    """However they are nested: each takes two hundred bytes, and ten in the text."""
    monkeypatch.setattr(json_reader, "KEPT", 1000)
    with pytest.raises(ParseError, match="More than 1000 members, texts and objects"):
        Reader(text.encode()).document()


def test_columns_are_of_bounded_number_and_size():
    """Small arrays wait for others of their column: a hundred bytes each, and four in the text."""

    def rows(names, count):
        row = "{" + ",".join(f'"{i}":[1]' for i in range(names)) + "}"
        return f'{{"instances":[{",".join([row] * count)}]}}'.encode()

    assert json_tensors.parse_object(rows(json_tensors.MOST_NAMES, 2))["instances"].number == 2
    with pytest.raises(ServingError, match=r"A row may have at most 1000 inputs\. Received: 1001"):
        json_tensors.parse_object(rows(json_tensors.MOST_NAMES + 1, 2))
    body = rows(50, 1000)
    tracemalloc.start()
    try:
        columns = json_tensors.parse_object(body)["instances"].columns
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**17
    finally:
        tracemalloc.stop()
    assert all((column.array() == np.ones([1000, 1])).all() for column in columns.values())


def test_what_is_not_kept_does_not_count(monkeypatch):
    monkeypatch.setattr(json_reader, "KEPT", 100)
    row = '{"a": [1, 2], "b": {"b64": "x"}}'
    seen: list = []
    rows = {"instances": lambda reader: reader.elements(seen.append)}
    Reader(f'{{"instances": [{",".join([row] * 500)}]}}'.encode(), rows).document()
    assert len(seen) == 500
    assert isinstance(Reader(f"[{','.join([row] * 500)}]".encode()).document(), Unusable)


def test_texts_are_of_bounded_length_and_number(monkeypatch):
    for text in (b"x" * 2**21, b"\\n" * 2**21):
        with pytest.raises(ParseError, match="A text has more than 1048576 bytes"):
            Reader(b'{"a": "%b"}' % text).document()
    longest = b'"%b"' % (b"\\n" * (2**19 - 1))
    assert Reader(b'{"a": %b}' % longest).document()["a"] == "\n" * (2**19 - 1)
    monkeypatch.setattr(json_reader, "KEPT", 3)
    for text, right in ((b'["a", "b", {}]', True), (b'["a", "b", {}, "c"]', False)):
        reader = Reader(text)
        with reader.lists():
            if right:
                assert reader.value() == ["a", "b", {}]
            else:
                with pytest.raises(ParseError, match="More than 3 members, texts"):
                    reader.value()


def test_short_runs_of_numbers_are_no_arrays_of_their_own(monkeypatch):
    added = []
    monkeypatch.setattr(Column, "_add", lambda self, block: added.append(block))
    Reader(b"[" + b"1,true," * 10_000 + b"1]").document()
    assert not added
    Reader(b"[[" + b"1],[" * 5000 + b"1]]").document()
    assert len(added) <= 5001 + 12


def test_reading_can_be_ended():
    def check():
        raise TimeoutError

    with pytest.raises(TimeoutError):
        Reader(b"[" + b"1," * 2**17 + b"1]", check=check).document()
