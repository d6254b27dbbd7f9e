"""Deep Belief Networks written the long way, in NumPy and float64, over all states of all layers."""

from __future__ import annotations

import itertools

import numpy as np

import tf_wcd
from tests.support import brute_force as bf


def make_dbn(sizes, unit="bernoulli", labels=0, seed=0, scale=0.7, **kwargs) -> tf_wcd.DBN:
    """A DBN with asymmetric parameters, from the data upwards."""
    rbms = []
    for number, (n_v, n_h) in enumerate(itertools.pairwise(sizes)):
        top = number == len(sizes) - 2
        visible = tf_wcd.units.Labelled(unit, labels) if labels and top else unit
        p = bf.random_parameters(n_v + (labels if top else 0), n_h, seed=seed + number, scale=scale)
        if labels and top:
            # The classes differ, and none of them has all the probability.
            p.W[-labels:] = 2.5 * (p.W[-labels:] - p.W[-labels:].mean(0))
        rbms.append(bf.make_rbm(p, visible, unit, name=f"rbm_{number}", seed=seed + number, **kwargs))
    dbn = tf_wcd.DBN(rbms)
    dbn.build((None, sizes[0]))
    return dbn


def top_joint(dbn, unit) -> np.ndarray:
    """P of the top RBM's visible units, [states] or, with labels, [states, labels]."""
    p = bf.parameters_of(dbn.rbms[-1])
    classes = dbn.classes
    states = bf.space(unit, len(p.b) - classes)
    hidden = bf.space(unit, len(p.c))
    if not classes:
        log_weights = bf.log_sum_exp(-bf.energy(p, states, hidden), 1)
    else:
        log_weights = np.stack(
            [
                bf.log_sum_exp(-bf.energy(p, np.hstack([states, np.tile(row, (len(states), 1))]), hidden), 1)
                for row in np.eye(classes)
            ],
            axis=1,
        )
    return np.exp(log_weights - bf.log_sum_exp(log_weights))


def generative_parameters(dbn) -> list[bf.Parameters]:
    return [
        bf.Parameters(*(np.asarray(v, "float64") for v in (m.kernel, m.visible_bias, m.hidden_bias)))
        for m in dbn.generative_machines()
    ]


def pass_down(dbn, unit, top: np.ndarray) -> np.ndarray:
    """The distribution of the data, where the top RBM's visible units have the given one."""
    for p in reversed(generative_parameters(dbn)):
        above, below = bf.space(unit, len(p.c)), bf.space(unit, len(p.b))
        top = top @ bf.conditional(above @ p.W.T + p.b, unit, below)
    return top


def data_distribution(dbn, unit="bernoulli") -> np.ndarray:
    joint = top_joint(dbn, unit)
    return pass_down(dbn, unit, joint.sum(1) if dbn.classes else joint)


def class_distribution(dbn, label, unit="bernoulli") -> np.ndarray:
    joint = top_joint(dbn, unit)[:, label]
    return pass_down(dbn, unit, joint / joint.sum())


def bound(dbn, x, unit="bernoulli", label=None) -> np.ndarray:
    """The variational bound of each row: a sum over all paths of hidden states under Q."""
    joint = top_joint(dbn, unit)
    top = np.log(joint if not dbn.classes else joint.sum(1) if label is None else joint[:, label])
    down = generative_parameters(dbn)
    up = [bf.parameters_of(rbm) for rbm in dbn.rbms[:-1]]

    def value(level: int, state: np.ndarray) -> float:
        if level == len(up):
            return float(top[bf.index_of(state[None])[0]])
        above = bf.space(unit, len(up[level].c))
        q = bf.conditional(state[None] @ up[level].W + up[level].c, unit, above)[0]
        total = 0.0
        for h, chance in zip(above, q, strict=True):
            field = h[None] @ down[level].W.T + down[level].b
            log_p = np.log(bf.conditional(field, unit, state[None])[0, 0])
            total += chance * (log_p - np.log(chance) + value(level + 1, h))
        return total

    return np.array([value(0, row) for row in np.asarray(x, "float64")])
