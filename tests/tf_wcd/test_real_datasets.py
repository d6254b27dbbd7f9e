"""The four sets of images: their contents, and how they get here."""

import gzip
import hashlib
import os
import pathlib
import struct

import numpy as np
import pytest
import scipy.io

import tf_wcd
from tests.tf_wcd.conftest import files_in
from tf_wcd.datasets import binarize, caltech101_silhouettes, ocr_letters

pytestmark = pytest.mark.usefixtures("cache")

FOLDER = pathlib.Path(os.environ.get("TF_WCD_DATA") or pathlib.Path(__file__).parents[2] / "../shared/data")


def copy_of(name):
    if not (FOLDER / f"{name}.npz").is_file():
        pytest.skip(f"no copy of {name}: {FOLDER} has no {name}.npz (name a folder that has one with TF_WCD_DATA)")
    with np.load(FOLDER / f"{name}.npz") as archive:
        return dict(archive)


# The contents

SPLITS = {
    "mnist": (784, 10, {"train": 60000, "test": 10000}),
    "fashion_mnist": (784, 10, {"train": 60000, "test": 10000}),
    "caltech101_silhouettes": (784, 101, {"train": 4100, "valid": 2264, "test": 2307}),
    "ocr_letters": (128, 26, {"train": 32152, "valid": 10000, "test": 10000}),
}


@pytest.mark.parametrize("name", SPLITS)
def test_copies(name):
    stored = copy_of(name)
    pixels, classes, rows = SPLITS[name]
    parts = tf_wcd.datasets.load(name, data_dir=FOLDER, binarize=None, validation="valid" in rows)
    assert len(parts) == len(rows)
    for (split, count), (x, y) in zip(rows.items(), parts, strict=True):
        assert x.shape == (count, pixels)
        assert y.shape == (count,)
        assert x.dtype == y.dtype == np.uint8
        np.testing.assert_array_equal(x, stored[f"x_{split}"])
        np.testing.assert_array_equal(y, stored[f"y_{split}"])
        assert (np.bincount(y, minlength=classes) > 0).all()
        assert y.max() == classes - 1
    two = tf_wcd.datasets.load(name, data_dir=FOLDER)
    assert [len(x) for x, _ in two] == [rows["train"], rows["test"]]
    assert all(x.dtype == np.float32 and (x.min(), x.max()) == (0, 1) for x, _ in two)


def test_label_histograms():
    for name in SPLITS:
        copy_of(name)
    counts = lambda y: np.bincount(y).tolist()  # noqa: E731
    (_, train), (_, test) = tf_wcd.datasets.load("mnist", data_dir=FOLDER)
    assert counts(train) == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert counts(test) == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    (_, train), (_, test) = tf_wcd.datasets.load("fashion_mnist", data_dir=FOLDER)
    assert (counts(train), counts(test)) == ([6000] * 10, [1000] * 10)
    parts = tf_wcd.datasets.load("ocr_letters", data_dir=FOLDER, validation=True)
    assert counts(np.concatenate([y for _, y in parts])) == [
        4034, 1284, 2114, 1442, 4955, 921, 2472, 861, 4913, 189, 909, 3140, 1602,
        5024, 3897, 1377, 341, 2673, 1394, 2136, 2562, 664, 520, 413, 1221, 1094,
    ]  # fmt: skip
    parts = tf_wcd.datasets.load("caltech101_silhouettes", data_dir=FOLDER, validation=True)
    ranges = [(min(counts(y)), max(counts(y))) for _, y in parts]
    assert (ranges[0], ranges[1][0], ranges[1][1]) == ((19, 100), 6, 349)
    assert parts[0][0].mean() == pytest.approx(0.5511, abs=5e-5)  # the object is 0, the ground 1


def test_the_environment_names_a_folder(monkeypatch, tmp_path):
    copy_of("ocr_letters")
    monkeypatch.setenv("TF_WCD_DATA", str(FOLDER))
    assert tf_wcd.datasets.load("ocr_letters")[0][0].shape == (32152, 128)
    with pytest.raises(
        FileNotFoundError, match=r"ocr_letters\.npz.*data_dir.*TF_WCD_DATA.*Received: .*" + tmp_path.name
    ):
        tf_wcd.datasets.load("ocr_letters", data_dir=tmp_path)  # the argument goes before the variable


def test_broken_copies(tmp_path):
    stored = copy_of("caltech101_silhouettes")
    content = (FOLDER / "caltech101_silhouettes.npz").read_bytes()
    path = tmp_path / "caltech101_silhouettes.npz"
    flipped = bytearray(content)
    flipped[200_000] ^= 1
    for broken in (b"", b"nonsense", content[:300], content[: len(content) // 2], content[:-30], bytes(flipped)):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"caltech101_silhouettes\.npz is broken"):
            tf_wcd.datasets.load("caltech101_silhouettes", data_dir=tmp_path)
        assert path.read_bytes() == broken  # the user's own file is left as it is
    one_pixel = stored["x_test"].copy()
    one_pixel[5, 5] ^= 1
    for change, message in (
        ({"x_test": one_pixel}, "`x_test` in .* is not that of caltech101_silhouettes.*Received: sha256"),
        ({"y_test": stored["y_test"].astype("int64")}, r"uint8 of the shape \[2307\].*Received: int64"),
        ({"x_train": stored["x_train"][:100]}, r"shape \[4100, 784\].*Received: uint8, shape \[100, 784\]"),
    ):
        np.savez(path, **{**stored, **change})
        with pytest.raises(ValueError, match=message):
            tf_wcd.datasets.load("caltech101_silhouettes", data_dir=tmp_path)
    np.savez(path, x_train=stored["x_train"])
    with pytest.raises(ValueError, match=r"must hold the arrays .*Received: \['x_train'\]"):
        tf_wcd.datasets.load("caltech101_silhouettes", data_dir=tmp_path)


def test_binarize():
    x = np.arange(256, dtype="uint8")
    np.testing.assert_allclose(binarize(x, "probabilities"), np.arange(256) / 255, rtol=1e-6)
    np.testing.assert_array_equal(binarize(x, "threshold"), np.arange(256) / 255 >= 0.5)
    assert binarize(x, None) is x
    n = 20_000
    drawn = binarize(np.tile(x, (n, 1)), "stochastic", rng=np.random.default_rng(0))
    assert drawn.dtype == np.float32
    assert set(np.unique(drawn)) == {0.0, 1.0}
    p = np.arange(256) / 255
    assert np.all(np.abs(drawn.mean(0) - p) <= 4.5 * np.sqrt(p * (1 - p) / n))  # never and always at the ends
    for method in ("probabilities", "threshold", "stochastic"):
        np.testing.assert_array_equal(binarize(np.array([0, 1], "uint8"), method, white=1), [0, 1])
    with pytest.raises(ValueError, match="binarize='half'"):
        binarize(x, "half")


def test_stochastic_images_by_seed():
    copy_of("mnist")
    load = lambda seed: tf_wcd.datasets.load("mnist", "stochastic", data_dir=FOLDER, seed=seed)[1][0]  # noqa: E731
    first = load(1)
    np.testing.assert_array_equal(first, load(1))
    assert 0.01 < np.mean(first != load(2)) < 0.2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "mnits"}, r"BS09.*mnist.*ocr_letters.*Received: 'mnits'"),
        ({"name": "mnist", "binarize": "half"}, "binarize='half'"),
        ({"name": "mnist", "validation": True}, "mnist has no validation part"),
        ({"name": "mnist", "seed": 1.5}, "seed=1.5"),
        ({"name": "BS09", "binarize": "threshold"}, "Options are for images"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        tf_wcd.datasets.load(**arguments)


# The way here


def matlab_file(path, arrays):
    """A file of the published form: images column by column, labels from 1 in a column."""
    content = {"classnames": np.array(["Airplanes Side 2", "Faces 2"], dtype=object)}
    for split, theirs in (("train", "train"), ("valid", "val"), ("test", "test")):
        pictures = arrays[f"x_{split}"].reshape(-1, 28, 28)
        content[f"{theirs}_data"] = np.stack([picture.ravel(order="F") for picture in pictures])
        content[f"{theirs}_labels"] = arrays[f"y_{split}"][:, None] + 1
    scipy.io.savemat(path, content, do_compression=True)
    return path.read_bytes()


def letter_lines(x, y):
    """Lines of the published form: number, letter, next, word, place, fold, pixels, and a tab at the end."""
    for number, (row, label) in enumerate(zip(x, y, strict=True), 1):
        fields = [number, chr(ord("a") + label), -1, number // 7 + 1, number % 7, number % 10, *row]
        yield "\t".join(map(str, fields)) + "\t\n"


def test_silhouettes_stand_upright_and_count_from_zero(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {f"x_{split}": rng.integers(2, size=(3, 784), dtype="uint8") for split in ("train", "valid", "test")}
    arrays["x_train"][0] = 0
    arrays["x_train"][0].reshape(28, 28)[3, 20] = 1  # row 3, column 20
    arrays |= {f"y_{split}": np.array([0, 50, 100], "uint8") for split in ("train", "valid", "test")}
    matlab_file(tmp_path / "a.mat", arrays)
    assert scipy.io.loadmat(tmp_path / "a.mat")["train_data"][0].argmax() == 20 * 28 + 3
    parsed = caltech101_silhouettes.read_matlab(tmp_path / "a.mat")
    assert parsed["x_train"][0].argmax() == 3 * 28 + 20
    for name, array in arrays.items():
        np.testing.assert_array_equal(parsed[name], array)
        assert parsed[name].dtype == np.uint8


def test_letters_are_parsed():
    rng = np.random.default_rng(0)
    x, y = rng.integers(2, size=(50, 128), dtype="uint8"), rng.integers(26, size=50, dtype="uint8")
    lines = [line.encode() for line in letter_lines(x, y)]
    for ending in (b"\t\n", b"\n", b"\t\r\n", b""):
        parsed = ocr_letters.parse_lines([line.rstrip(b"\t\n") + ending for line in lines])
        np.testing.assert_array_equal(parsed[0], x)
        np.testing.assert_array_equal(parsed[1], y)
    for broken in (b"", b"1\ta\t2\n", lines[1][:200], lines[1].replace(b"\t0", b"\t7")):
        with pytest.raises(ValueError, match="Line 1 must have a letter and 128 pixels"):
            ocr_letters.parse_lines([lines[0], broken])


def test_letters_are_shuffled_as_python_2_did():
    order = ocr_letters.shuffled_as_published(52152)
    assert order[:8].tolist() == [8110, 9346, 20302, 2071, 22904, 11212, 48009, 9209]
    np.testing.assert_array_equal(np.sort(order), np.arange(52152))


def serve(monkeypatch, server, module, sum_name, content, unpacked):
    server.files["/file"] = content
    monkeypatch.setattr(module, "URL", f"{server.address}/file")
    monkeypatch.setattr(module, sum_name, hashlib.md5(unpacked).hexdigest())


def check_download(server, cache, name, file_name):
    """From the server to arrays with the published checksums, once; a broken answer leaves nothing behind."""
    stored = copy_of(name)
    content = server.files["/file"]
    server.files["/file"] = content[:-500] + os.urandom(500)
    with pytest.raises(ValueError, match="is not the file that it should be, and was not kept"):
        tf_wcd.datasets.load(name)
    server.files["/file"] = content
    server.hang_up_after = 1000
    with pytest.raises(OSError, match="after 1000 of"):
        tf_wcd.datasets.load(name)
    assert files_in(cache) == []
    server.hang_up_after = None
    server.requests.clear()
    for _ in range(2):
        parts = tf_wcd.datasets.load(name, binarize=None, validation=True)
    assert server.requests == ["/file"]
    assert files_in(cache) == [file_name]
    for split, (x, y) in zip(("train", "valid", "test"), parts, strict=True):
        np.testing.assert_array_equal(x, stored[f"x_{split}"])
        np.testing.assert_array_equal(y, stored[f"y_{split}"])
    (cache / file_name).write_bytes(content[:5000])  # a file cut off by another program is downloaded anew
    tf_wcd.datasets.load(name)
    assert server.requests == ["/file", "/file"]


def test_silhouettes_from_their_home(monkeypatch, server, cache, tmp_path):
    content = matlab_file(tmp_path / "a.mat", copy_of("caltech101_silhouettes"))
    serve(monkeypatch, server, caltech101_silhouettes, "MD5", content, content)
    check_download(server, cache, "caltech101_silhouettes", "caltech101_silhouettes_28_split1.mat")


def test_letters_from_their_home(monkeypatch, server, cache):
    stored = copy_of("ocr_letters")
    # The lines in the order of the file, before the shuffle.
    back = np.argsort(ocr_letters.shuffled_as_published(52152))
    x, y = (np.concatenate([stored[f"{part}_{split}"] for split in ("train", "valid", "test")])[back] for part in "xy")
    unpacked = "".join(letter_lines(x, y)).encode()
    serve(monkeypatch, server, ocr_letters, "UNPACKED_MD5", gzip.compress(unpacked, 1), unpacked)
    check_download(server, cache, "ocr_letters", "ocr_letters.data.gz")


# The sets that Keras gets


def fashion_files(cache, stored):
    """The four files that Keras keeps: images and labels of each part, each behind a header of its own."""
    (cache / "fashion-mnist").mkdir()
    for split, prefix in (("train", "train"), ("test", "t10k")):
        images, labels = stored[f"x_{split}"], stored[f"y_{split}"]
        header = struct.pack(">IIII", 2051, len(images), 28, 28)
        for name, content in (
            ("images-idx3", header + images.tobytes()),
            ("labels-idx1", struct.pack(">II", 2049, len(labels)) + labels.tobytes()),
        ):
            (cache / "fashion-mnist" / f"{prefix}-{name}-ubyte.gz").write_bytes(gzip.compress(content, 1))


def test_fashion_mnist_in_the_cache_of_keras(cache):
    stored = copy_of("fashion_mnist")
    fashion_files(cache, stored)
    (x_train, y_train), (x_test, _) = tf_wcd.datasets.load("fashion_mnist", binarize=None)
    np.testing.assert_array_equal(x_train, stored["x_train"])
    np.testing.assert_array_equal(y_train, stored["y_train"])
    np.testing.assert_array_equal(x_test, stored["x_test"])
    # Keras itself does not check these files.
    folder = cache / "fashion-mnist"
    good = {path.name: path.read_bytes() for path in folder.iterdir()}
    name = "t10k-images-idx3-ubyte.gz"
    one_pixel = gzip.compress(gzip.decompress(good[name])[:-1] + b"\x07", 1)
    for broken, message in ((good[name][:100_000], "end-of-stream"), (b"nonsense", "gzip"), (one_pixel, "sha256")):
        for file_name, content in {**good, name: broken}.items():
            (folder / file_name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"fashion_mnist in Keras' cache was broken, and is removed.*{message}"):
            tf_wcd.datasets.load("fashion_mnist")
        assert files_in(cache) == []


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_keras_without_a_network(cache, name):
    (cache / "mnist.npz").write_bytes(b"nonsense")
    with pytest.raises(OSError, match=rf"Could not download {name}.*TF_WCD_DATA.*URL fetch failure"):
        tf_wcd.datasets.load(name)
    assert [f for f in files_in(cache) if f != "mnist.npz" or name == "mnist"] == []


def test_names():
    assert tf_wcd.datasets.names("images")[:4] == ["mnist", "fashion_mnist", "caltech101_silhouettes", "ocr_letters"]
