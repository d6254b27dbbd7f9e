"""Settings as frozen values that are passed: of one run, of the grids, and of the paper's whole protocol.

Nothing here needs TensorFlow, so that the command line answers without delay.
"""
