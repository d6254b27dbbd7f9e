"""A model of the configuration: its versions, and what is known of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tensorflow_serving.apis import model_pb2
from tensorflow_serving.config import model_server_config_pb2

from serving import version_files
from serving.errors import invalid
from serving.publish import versions_in
from serving.servable import Servable

MOST_FALLBACKS = 20  # a folder such as /proc has hundreds of subfolders with numbers, and other models wait meanwhile


@dataclasses.dataclass
class VersionStatus:
    """State of a version, and the error if it could not be loaded."""

    state: int
    code: int = 0
    message: str = ""
    failed_at: float | None = None
    files: version_files.State | None = None  # those that could not be loaded


class Model:
    """One model of the configuration."""

    def __init__(self, config: model_server_config_pb2.ModelConfig) -> None:
        self.config = config
        self.roots: Sequence[Path] | None = None  # folders that all files must be in; None for anywhere
        self.servables: dict[int, Servable] = {}
        self.status: dict[int, VersionStatus] = {}

    def aspired(self) -> list[int]:
        """The versions in the folder that the policy selects, oldest first."""
        there = versions_in(self.config.base_path)
        policy = self.config.model_version_policy
        kind = policy.WhichOneof("policy_choice")
        if kind == "all":
            return there
        if kind == "specific":
            wanted = set(policy.specific.versions)
            return [version for version in there if version in wanted]
        return there[-(policy.latest.num_versions or 1) :]

    def fallbacks(self) -> list[int]:
        """Versions to try if none of the aspired ones can be loaded, the newest first."""
        if self.config.model_version_policy.WhichOneof("policy_choice") in ("all", "specific"):
            return []
        older = sorted(set(versions_in(self.config.base_path)) - set(self.aspired()), reverse=True)
        return older[:MOST_FALLBACKS]


def asked_version(spec: model_pb2.ModelSpec, model: Model | None) -> int | None:
    """The version that a request names, by its number or its label; ``None`` if it names none."""
    choice = spec.WhichOneof("version_choice")
    if choice == "version_label":
        labels = model.config.version_labels if model is not None else {}
        if spec.version_label not in labels:
            raise invalid(f"Unrecognized servable version label: {spec.version_label}")
        return labels[spec.version_label]
    return spec.version.value if choice == "version" else None
