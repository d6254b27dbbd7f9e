"""The web page in a real browser: draw, paint, fill in, see versions."""

import os

import numpy as np
import pytest

from tests.serving.browser import browsing, chromium
from tests.serving.conftest import put, running
from tests.tf_wcd.served import small_rbm

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
            np.testing.assert_array_equal(shown[:, :, 0], np.where(truth[i].reshape(6, 6) > 0, 255, 0))

        # Paint the left part white with a brush of two, and let the model fill in the rest.
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
        assert (painted[:, :2] == [255, 190, 140]).all()
        assert (painted[:, 2:] == 0).all()
        page.click("#fill")
        page.wait_for("document.getElementById('outcome').textContent.includes('12 pixels held, 24 filled in')")
        first = pixels(page, "#result")
        assert (first[:, :2] == 255).all()
        assert set(np.unique(first)) <= {0, 255}
        page.click("#keep")
        assert (pixels(page, "#paint")[:, 2:] == first[:, 2:]).all()

        # Another model's version appears by itself, and an error is shown.
        put(tmp_path / "export", tmp_path / "rbm", 2)
        page.wait_for("document.getElementById('versions').innerText.includes('END')")
        page.evaluate("document.getElementById('steps').value = 99999999")
        page.click("#fill")
        page.wait_for("document.getElementById('error').textContent.includes('steps must be from 0 to')")
        if os.environ.get("TF_WCD_SCREENSHOTS"):
            page.screenshot(os.path.join(os.environ["TF_WCD_SCREENSHOTS"], "page.png"))
        assert [text for text in page.complaints() if "status of 400" not in text] == []
