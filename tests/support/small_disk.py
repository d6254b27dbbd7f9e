"""A real small file system that can be filled up; where none can be mounted, a limit on the size of files."""

import contextlib
import resource
import subprocess

import pytest


class SmallDisk:
    """A folder on a disk of a few megabytes.

    Args:
        path: the folder.
        mounted: whether it is a file system of its own.
    """

    def __init__(self, path, mounted):
        self.path, self.mounted = path, mounted
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, but=0):
        """Leaves so many bytes free, rounded down to whole pages."""
        if not self.mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (but, self._limits[1]))
            return
        with open(self.path / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        with open(self.path / "filler", "rb+") as file:
            size = file.seek(0, 2)
            file.truncate(max(0, size - but // 4096 * 4096))
        if not but:
            with pytest.raises(OSError, match="No space left on device"):
                (self.path / "probe").write_bytes(b"x")
            (self.path / "probe").unlink(missing_ok=True)

    def make_room(self):
        if self.mounted:
            (self.path / "filler").unlink(missing_ok=True)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)


@contextlib.contextmanager
def small_disk(path, megabytes):
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    disk = SmallDisk(path, mounted)
    try:
        yield disk
    finally:
        disk.make_room()
        if mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=True)
