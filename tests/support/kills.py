"""Processes that are killed at chosen moments and started again."""

import signal
import subprocess
import time


def start(command, environment, cwd=None):
    return subprocess.Popen(
        command, env=environment, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def finish(process, timeout=300, codes=(0,)):
    """Waits for a process, which must end well."""
    _, error = process.communicate(timeout=timeout)
    assert process.returncode in codes, error[-3000:]


def kill_when(process, reached, delay, timeout=300):
    """Kills a process (-9) a moment after it has reached a point; it must still be running then."""
    end = time.monotonic() + timeout
    while not reached():
        if process.poll() is not None:
            raise AssertionError(f"The process has ended ({process.returncode}): {process.stderr.read()[-3000:]}")
        assert time.monotonic() < end, "The process has not come to where it should be killed."
        time.sleep(0.001)
    time.sleep(delay)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
