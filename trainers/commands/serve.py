"""``wcd serve``, whose flags are those of TF-Serving."""

from __future__ import annotations

from collections.abc import Sequence

from trainers.commands.command import PlainCommand, without_extra


def run(arguments: Sequence[str]) -> int:
    """Does it."""
    from serving import options

    options.parse(arguments)  # help and wrong flags without waiting for TensorFlow
    try:
        from serving import server
    except ModuleNotFoundError as error:
        return without_extra("serve", error)
    return server.main(arguments)


COMMAND = PlainCommand("serve", "Serve models over TF-Serving's protocol, with its flags.", run)
