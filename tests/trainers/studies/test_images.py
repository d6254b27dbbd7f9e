"""Runs on images: chosen, trained and evaluated, on tiny pictures; old records, whose method is a label."""

import json
from types import MappingProxyType

import numpy as np
import pytest

from tests.support.mnist import ROOT
from trainers.runs.image_sets import Images
from trainers.settings.image_protocol import Evaluation, ImageProtocol, ImageSet
from trainers.settings.protocol import PAPER
from trainers.settings.runs import ImageMethod, ImageRun
from trainers.store.records import Records
from trainers.studies import images, single
from trainers.studies.work import Work

TEMPERED = ImageMethod("WPCD", 0.5)
SMALL = ImageProtocol(
    sets=MappingProxyType({"ocr_letters": ImageSet("ocr_letters", "OCR", "threshold", 30, (4, 8))}),
    methods=(TEMPERED,),
    mesh=(0.01, 0.1),
    variants=(),
    hidden=6,
    evaluation=Evaluation(counts=(100, 1000), temperatures=300),
)


@pytest.fixture(scope="module")
def letters():
    """Tiny pictures: one of two bars, with noise."""
    rng = np.random.default_rng(0)

    def draw(count):
        x = np.zeros((count, 16, 8), "float32")
        x[np.arange(count), rng.choice([3, 12], count)] = 1
        return np.abs(x.reshape(count, 128) - (rng.random((count, 128)) < 0.02)).astype("float32")

    return Images(draw(300), draw(100), draw(100))


@pytest.mark.slow
def test_image_runs_are_chosen_trained_and_evaluated(tmp_path, letters):
    work = Work(tmp_path, protocol=PAPER._replace(images=SMALL), verbose=False)
    folder = tmp_path / "large"
    assert images.run(work, load=lambda _: letters) == 0
    (record,) = Records(folder / "runs.jsonl").read()
    assert record["name"] == "ocr_letters-WPCD, ESS >= 50%-bernoulli-centered"
    assert (record["settings"]["method"], record["settings"]["minimum_ess"]) == ("WPCD", 0.5)
    chosen = Records(folder / "selection" / "ocr_letters.jsonl").read()
    assert [r["settings"]["epochs"] for r in chosen] == [4, 4, 8, 8], "both rates, then the better ones for longer"
    mine = {r["settings"]["learning_rate"]: r["parzen"] for r in chosen if r["settings"]["epochs"] == 8}
    assert record["settings"]["learning_rate"] == max(mine, key=mine.get)
    low, high = record["annealed"]["test"]
    assert low - 1 <= record["annealed"]["test_estimate"] <= high + 1
    assert record["parzen"]["values"][1] > record["parzen"]["values"][0] - 5
    assert record["ess"][-1][1] >= 0.5 - 1e-3
    assert len(list((folder / "figures").glob("*.png"))) == 2
    assert images.run(work, load=lambda _: letters) == 0
    assert len(Records(folder / "runs.jsonl").read()) == 1, "nothing runs again"
    # The first round with other units, of which one part is done.
    more = SMALL._replace(variants=(SMALL.main, PAPER.images.variants[2]))
    pieces = images.variant_pieces(Work(tmp_path, protocol=PAPER._replace(images=more)), lambda _: letters)
    assert [piece.done() for piece in pieces] == [True, False]


def test_one_image_run_in_a_new_folder(tmp_path, letters):
    run = ImageRun("ocr_letters", "PCD", "bernoulli", True, 0.1, 1)
    record = single.run_images(run, tmp_path / "new", protocol=SMALL, load=lambda _: letters)
    assert record["settings"]["epochs"] == 1
    kinds = sorted(path.suffix for path in (tmp_path / "new").iterdir() if path.is_file())
    assert kinds == [".jsonl", ".keras", ".png", ".png"]
    again = single.run_images(run, tmp_path / "new", protocol=SMALL, load=None)
    assert again == json.loads(json.dumps(record)), "nothing runs again"


def test_records_from_before_the_minimum_was_a_field_are_read(tmp_path):
    work = Work(ROOT / "trainers" / "results")
    runs = [ImageRun.from_record(r["settings"]) for r in images.long_runs(work.large).read()]
    assert {run.image_method for run in runs} == set(PAPER.images.methods)
    assert all(piece.done() for piece in images.long_pieces(work)), "what has been run is not run again"


def test_plain_methods_have_no_weights_to_temper():
    with pytest.raises(ValueError, match=r"Received: --method=PCD --minimum_ess=0\.5"):
        ImageMethod("PCD", 0.5)
