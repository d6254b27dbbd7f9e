"""The commands of ``wcd``: a module for each, with its flags, its examples, and the function that does it.

TensorFlow is imported by what a command calls, not here: help and wrong flags are answered without delay.
"""
