"""The sampling service: publish models, serve them over TF-Serving's protocol, and ask for samples."""

from __future__ import annotations

from typing import Any

from serving.publish import publish

__all__ = ["AsyncSamplerClient", "SamplerClient", "SamplerError", "publish"]


def __getattr__(name: str) -> Any:
    # The client needs gRPC and TF-Serving's messages; publishing does not.
    if name in ("AsyncSamplerClient", "SamplerClient"):
        from serving import client

        return getattr(client, name)
    if name == "SamplerError":
        from serving.attempts import SamplerError

        return SamplerError
    raise AttributeError(f"module 'serving' has no attribute {name!r}")
