"""Kernels for GPUs, in Triton: off unless ABLATE_TRITON=on, since none was ever timed on a GPU."""
