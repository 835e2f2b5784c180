"""Kernels in C++ for what torch has none: recurrences over a window, rows of softmaxes."""
