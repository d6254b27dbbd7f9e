"""The web page in a real browser: draw, paint, fill in, see versions."""

import os

import numpy as np
import pytest

import tf_wcd
from tests.serving.conftest import put, running
from tests.support.browser import browsing, chromium
from tests.support.brute_force import random_parameters, set_parameters
from tests.support.served import signatures, small_rbm

pytestmark = pytest.mark.skipif(chromium() is None, reason="needs Chromium, which is not installed here")


def pixels(page, selector):
    """Grey levels of a canvas, row by row, [height, width, 3]."""
    script = f"""(() => {{ const c = document.querySelector({selector!r});
        return [c.height, c.width, ...c.getContext("2d").getImageData(0, 0, c.width, c.height).data]; }})()"""
    height, width, *values = page.evaluate(script)
    return np.array(values).reshape(height, width, 4)[:, :, :3]


def test_the_page(tmp_path):
    rbm = small_rbm("spin", "bernoulli", 36, 8, scale=0.2)
    rbm.export(tmp_path / "export", gibbs_steps=20)
    put(tmp_path / "export", tmp_path / "rbm", 1)
    with running(tmp_path / "rbm") as connection, browsing(tmp_path / "profile") as page:
        page.open(f"http://127.0.0.1:{connection.rest_port}/")
        page.wait_for("document.body && document.body.dataset.ready")
        assert page.evaluate("document.getElementById('error').textContent") == ""
        assert "36 visible (spin), 8 hidden units" in page.evaluate("document.getElementById('facts').textContent")
        assert page.evaluate("document.getElementById('versions').innerText.split(/\\s+/)[1]") == "AVAILABLE"

        # The samples that are drawn are those of the model for these seeds.
        page.evaluate("document.getElementById('count').value = 5; document.getElementById('seed').value = 7")
        page.click("#draw")
        page.wait_for("document.querySelectorAll('#samples canvas').length === 5")
        truth = connection.predict("sample", seed=7000 + np.arange(5))["visible"]
        for i in range(5):
            shown = pixels(page, f"#samples canvas:nth-child({i + 1})")
            np.testing.assert_array_equal(shown[:, :, 0], np.where(truth[i].reshape(6, 6) > 0, 0, 255))

        # Paint the left part dark with a brush of two, and let the model fill in the rest.
        page.evaluate("document.getElementById('brush').value = 2; document.getElementById('paint').scrollIntoView()")
        x, y, size = page.evaluate(
            "(() => { const b = document.querySelector('#paint').getBoundingClientRect();"
            "return [b.x, b.y, b.width]; })()"
        )
        unit = size / 6
        page.mouse("mousePressed", x + 0.5 * unit, y + 0.5 * unit)
        for row in np.arange(0.5, 6, 0.5):
            page.mouse("mouseMoved", x + 0.5 * unit, y + row * unit)
        page.mouse("mouseReleased", x + 0.5 * unit, y + 5.5 * unit)
        painted = pixels(page, "#paint")
        assert (painted[:, :2] == [180, 75, 0]).all()
        assert (painted[:, 2:] == 255).all()
        page.click("#fill")
        page.wait_for("document.getElementById('outcome').textContent.includes('12 pixels held, 24 filled in')")
        first = pixels(page, "#result")
        assert (first[:, :2] == 0).all()
        assert set(np.unique(first)) <= {0, 255}
        page.click("#keep")
        assert (pixels(page, "#paint")[:, 2:] == first[:, 2:]).all()

        # Another model's version appears by itself, and an error is shown.
        put(tmp_path / "export", tmp_path / "rbm", 2)
        page.wait_for("document.getElementById('versions').innerText.includes('END')")
        page.evaluate("document.getElementById('steps').value = 10001")
        page.click("#fill")
        page.wait_for("/^steps must be from 0 to 10000\\b[^\\[]*$/.test(document.getElementById('error').textContent)")
        if os.environ.get("TF_WCD_SCREENSHOTS"):
            page.screenshot(os.path.join(os.environ["TF_WCD_SCREENSHOTS"], "page.png"))
        assert [text for text in page.complaints() if "status of 400" not in text] == []


def press(page, key, text=""):
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key=key, code=key if key != " " else "Space", text=text)


def test_classes_and_the_keyboard(tmp_path):
    """Samples of a class by its button, the class of a picture, and all of it without a mouse."""
    rbm = tf_wcd.RBMLayer(6, classes=3, seed=0)
    rbm.build((None, 20))
    set_parameters(rbm, random_parameters(23, 6, seed=1, scale=0.4))
    rbm.export(tmp_path / "export", gibbs_steps=20)
    put(tmp_path / "export", tmp_path / "rbm", 1)
    local = signatures(tmp_path / "export")
    with running(tmp_path / "rbm") as connection, browsing(tmp_path / "profile") as page:
        page.open(f"http://127.0.0.1:{connection.rest_port}/")
        page.wait_for("document.body && document.body.dataset.ready")
        assert page.evaluate("[...document.querySelectorAll('#classes button')].map(b => b.textContent)") == [
            "any", "0", "1", "2",
        ]  # fmt: skip
        page.evaluate("document.getElementById('count').value = 4; document.getElementById('seed').value = 3")
        page.evaluate("document.querySelectorAll('#classes button')[3].focus()")
        press(page, "Enter", "\r")
        page.wait_for("document.getElementById('drawn').textContent === '4 samples of class 2.'")
        assert page.evaluate("document.querySelectorAll('#classes button')[3].ariaPressed") == "true"
        truth = local["conditional"](label=np.full(4, 2), seed=3000 + np.arange(4))["visible"]
        for i in range(4):
            shown = pixels(page, f"#samples canvas:nth-child({i + 1})")
            np.testing.assert_array_equal(shown[:, :, 0].ravel(), np.where(truth[i] > 0, 0, 255))

        # The second sample, chosen by Enter, is classified as the model does it.
        page.evaluate("document.querySelectorAll('#samples canvas')[1].focus()")
        press(page, "Enter", "\r")
        page.click("#classify")
        answer = connection.predict("classify", visible=truth[1:2].astype("float32"))
        label, share = answer["label"][0], np.exp(answer["log_prob"].max())
        page.wait_for(
            f"document.getElementById('outcome').textContent.includes('of class {label}, with probability {share:.3f}')"
        )

        # Painted with arrows and the space bar: the pixel in the second row and column.
        page.click("#clear")
        page.evaluate("document.getElementById('paint').focus()")
        for key in ("ArrowRight", "ArrowDown"):
            press(page, key)
        press(page, " ", " ")
        painted = pixels(page, "#paint")
        assert (painted[1, 1] == [180, 75, 0]).all()
        assert (painted != 255).any(-1).sum() == 1
        assert page.evaluate("document.getElementById('place').textContent") == "Row 2, column 2: dark, held."

        # Everything that can be operated has a name, in the tree that screen readers use.
        tree = page.call("Accessibility.getFullAXTree")["nodes"]
        roles = {"button", "combobox", "spinbutton", "textbox", "application", "image", "img", "table"}
        named = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in tree if not n.get("ignored")]
        found = [(role, name) for role, name in named if role in roles]
        assert len(found) > 15
        assert [entry for entry in found if not entry[1].strip()] == []
        assert ("button", "samples of class 2") in found
        if os.environ.get("TF_WCD_SCREENSHOTS"):
            page.screenshot(os.path.join(os.environ["TF_WCD_SCREENSHOTS"], "classes.png"))
        assert page.complaints() == []
