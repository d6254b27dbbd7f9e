"""A cache and a server for the tests of what comes from the network."""

import http.server
import threading

import keras
import pytest


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of its own for each test, and no way to the network but to this machine."""
    home = tmp_path / "keras"
    monkeypatch.delenv("TF_WCD_DATA", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(home))
    monkeypatch.setattr(keras.src.backend.config, "_KERAS_DIR", str(home))  # Keras reads the variable once, at import
    for scheme in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(scheme, "http://127.0.0.1:9")  # a port where nobody answers
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (home / "datasets").mkdir(parents=True)
    return home / "datasets"


class Server:
    """A server on this machine: what it holds, what it was asked for, and after how many bytes it hangs up."""

    def __init__(self):
        self.files, self.requests, self.hang_up_after = {}, [], None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append(self.path)
                content = outer.files.get(self.path)
                if content is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: outer.hang_up_after])

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())
