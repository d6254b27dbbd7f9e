"""Runs of a session that can be stopped one by one.

TensorFlow's C API stops a run at its deadline, or all runs of a session when it is closed. So nodes are added to the
graph, which the public functions allow: each run also waits for a verdict from a queue. When its outputs are computed,
it puts "done" into the queue itself. Whoever puts "stop" there makes the run fail, and a run that fails stops
computing. The verdict is waited for without a thread.

This takes some tenths of a millisecond. Runs that end by themselves within some hundredths of a second, as `QuickRuns`
knows from others like them, do without.
"""

from __future__ import annotations

import functools
import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from serving.c_api import SavedModelSession
from serving.c_library import CANCELLED, DEADLINE_EXCEEDED, SessionError
from serving.cancellation import Cancellation
from serving.quick_runs import QuickRuns

PREFIX = "wcd_stop"
SLOT = f"{PREFIX}/slot:0"
SLOTS = max(4, os.cpu_count() or 1)  # runs at the same time; more of them wait
SUBSETS = 64  # of outputs: for each, TensorFlow and the graph keep something


class _Slot:
    """A queue in the graph, and the run that waits for its verdict."""

    def __init__(self, number: int) -> None:
        self.feed = {SLOT: np.array(number, np.int32)}
        self.lock = threading.Lock()
        self.run: object | None = None
        self.stopped = False


class StoppableSession:
    """A loaded SavedModel whose runs can be stopped.

    Args:
        path: its folder.

    Attributes:
        meta_graph: the graph's description, with its signatures.

    Raises:
        SessionError: if it cannot be loaded.
    """

    def __init__(self, path: str | Path) -> None:
        self._session = SavedModelSession(path)
        self.meta_graph = self._session.meta_graph
        self._free: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        self._done: dict[frozenset[str], str] = {}  # the nodes that put "done", by the operations that they wait for
        self._outputs: list[list[str]] = []  # of each signature
        self._asked: set[tuple[str, ...]] = set()
        self._adding = threading.Lock()
        self._quick = QuickRuns()
        try:
            self._session.add(_switches(), PREFIX)
            for signature in self.meta_graph.signature_def.values():
                self._outputs.append(sorted({info.name for info in signature.outputs.values() if info.name}))
                self._done_after(self._outputs[-1])
            slots = [_Slot(number) for number in range(SLOTS)]
            for target in ("stop", "drain"):  # now: the first run of anything takes long
                self._session.run(slots[0].feed, [], None, [f"{PREFIX}/{target}"])
        except BaseException:
            self.close()
            raise
        for slot in slots:
            self._free.put(slot)

    def run(
        self,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        deadline: float | None = None,
        cancellation: Cancellation | None = None,
        steps: int | None = None,
    ) -> list[np.ndarray]:
        """Runs the graph until it is done, the deadline (of `time.monotonic`) passes or somebody cancels it.

        Args:
            steps: what its time depends on, besides its rows; ``None`` if that is not known.

        Raises:
            SessionError: CANCELLED, DEADLINE_EXCEEDED, or with TensorFlow's code and text.
        """
        computed = self._computed(fetches)
        cancellation = cancellation or Cancellation()
        if steps is None:
            results = self._stoppable(feeds, computed, deadline, cancellation)
        else:
            kind, rows = tuple(computed), max((array.shape[0] for array in feeds.values() if array.ndim), default=1)
            quick = self._quick.expected(kind, rows, steps) and not cancellation.cancelled
            start = time.monotonic()
            if quick:
                results = self._session.run(feeds, computed)
            else:
                results = self._stoppable(feeds, computed, deadline, cancellation)
            self._quick.record(kind, rows, steps, time.monotonic() - start)
        return results if computed is fetches else [results[computed.index(name)] for name in fetches]

    def _stoppable(
        self,
        feeds: Mapping[str, np.ndarray],
        fetches: Sequence[str],
        deadline: float | None,
        cancellation: Cancellation,
    ) -> list[np.ndarray]:
        targets = [f"{PREFIX}/watch", self._done_after(fetches)]
        try:
            slot = self._free.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise SessionError(DEADLINE_EXCEEDED, "The deadline passed before the answer was ready") from None
        run = object()
        with slot.lock:
            slot.run, slot.stopped = run, False
        clean = False
        try:
            with cancellation.calling(functools.partial(self._stop, slot, run)):
                timeout = None if deadline is None else (deadline - time.monotonic()) * 1e3
                results = self._session.run({**feeds, **slot.feed}, fetches, timeout, targets)
            clean = True
            return results
        except SessionError as error:
            if slot.stopped and error.code != DEADLINE_EXCEEDED:
                raise SessionError(CANCELLED, "The request was cancelled") from None
            raise
        finally:
            with slot.lock:
                slot.run = None
            try:
                if slot.stopped or not clean:
                    self._session.run(slot.feed, [], None, [f"{PREFIX}/drain"], in_this_thread=True)
            finally:
                self._free.put(slot)

    def _stop(self, slot: _Slot, run: object) -> None:
        with slot.lock:
            if slot.run is run:  # and not a later one
                slot.stopped = True
                self._session.run(slot.feed, [], None, [f"{PREFIX}/stop"], in_this_thread=True)

    def _computed(self, fetches: Sequence[str]) -> Sequence[str]:
        """The tensors to compute for these: all of the signature's once clients have asked for many subsets."""
        with self._adding:
            if len(self._asked) < SUBSETS or tuple(fetches) in self._asked:
                self._asked.add(tuple(fetches))
                return fetches
        return next((outputs for outputs in self._outputs if set(fetches) <= set(outputs)), fetches)

    def _done_after(self, fetches: Sequence[str]) -> str:
        """Name of the node that puts "done" when the given tensors are computed."""
        operations = _operations(fetches)
        with self._adding:
            if operations not in self._done:
                name = f"{PREFIX}/done_{len(self._done)}"
                self._session.add_enqueue(name, f"{PREFIX}/handle:0", f"{PREFIX}/true:0", sorted(operations))
                self._done[operations] = name
            return self._done[operations]

    def close(self) -> None:
        """Frees the model's memory. No run may be in progress."""
        self._session.close()


def _operations(tensors: Sequence[str]) -> frozenset[str]:
    return frozenset(name.partition(":")[0] for name in tensors)


@functools.cache
def _switches() -> bytes:
    """A GraphDef: a queue for each slot, and what is done with the one whose number is fed."""
    ops = tf.raw_ops
    with tf.Graph().as_default() as graph:
        slot = tf.compat.v1.placeholder(tf.int32, [], "slot")
        handles = []
        for number in range(SLOTS):
            name = f"{PREFIX}_{number}"
            handle = ops.FIFOQueueV2(component_types=[tf.bool], shapes=[[]], shared_name=name, name=f"queue_{number}")
            handles.append(ops.Switch(data=handle, pred=tf.equal(slot, number)).output_true)
        handle = ops.Merge(inputs=handles, name="handle").output
        (done,) = ops.QueueDequeueV2(handle=handle, component_types=[tf.bool])
        ops.Assert(condition=done, data=[tf.constant("stopped")], name="watch")
        ops.QueueEnqueueV2(handle=handle, components=[tf.constant(False)], name="stop")
        size = ops.QueueSizeV2(handle=handle)
        ops.QueueDequeueManyV2(handle=handle, n=size, component_types=[tf.bool], name="drain")
        tf.constant(True, name="true")
    return graph.as_graph_def().SerializeToString()
