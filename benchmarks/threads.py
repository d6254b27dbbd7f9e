"""One thread for all that is timed, so that seconds of the processor are seconds of work."""

from __future__ import annotations


def one_thread() -> None:
    """TensorFlow, PyTorch, and whatever libraries of linear algebra NumPy and scikit-learn use, compute in one thread.

    It comes before TensorFlow's first operation.
    """
    import sklearn.linear_model
    import sklearn.neural_network  # noqa: F401 - limited is what has been imported
    import tensorflow as tf
    from threadpoolctl import threadpool_limits

    try:
        import torch
    except ImportError:
        pass
    else:
        torch.set_num_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    threadpool_limits(1)
