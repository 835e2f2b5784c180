"""How a packed file begins: it is the file's `__main__.py`, and unpacks the rest into a folder.

Kernels are compiled from a folder, and techniques are found in one; so is what a child imports.
"""

import os
import sys
import tempfile
import zipfile

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ablate-gpu-") as folder:
        with zipfile.ZipFile(sys.argv[0]) as archive:
            archive.extractall(folder)
        sys.path[0] = folder
        from benchmarks.gpu.__main__ import main

        sys.exit(main(f"python {os.path.basename(sys.argv[0])}"))
