"""Settings as frozen values that are passed: of one run, of the grids, and of the paper's whole protocol.

Nothing here needs TensorFlow, so that the flags of the command line are there at once.
"""
