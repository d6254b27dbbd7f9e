"""PCD of the package `rbms`: its own step and centred gradient, and torch's SGD."""

from __future__ import annotations

from typing import Any


class RbmsPCD:
    """A model of `rbms` that is trained batch by batch.

    Args:
        model: its parameters at the start.
        batch_size: rows of a batch, of which the last may have fewer; as many chains.
        rate: learning rate.
        momentum: of SGD.
    """

    def __init__(self, model: Any, batch_size: int, rate: float, momentum: float) -> None:
        import torch

        self.model = model
        self.model.init_grad()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=rate, momentum=momentum, maximize=True)
        self.chains = self.model.init_chains(batch_size)
        self.weights = torch.ones(batch_size)

    def update(self, batch: Any) -> None:
        """One update; to be called under `torch.no_grad`."""
        from rbms.training.pcd import fit_batch_pcd

        self.optimizer.zero_grad(set_to_none=False)
        self.chains, _ = fit_batch_pcd(
            batch=(batch, self.weights[: len(batch)]),
            parallel_chains=self.chains,
            params=self.model,
            gibbs_steps=1,
            beta=1.0,
            centered=True,
        )
        self.optimizer.step()
