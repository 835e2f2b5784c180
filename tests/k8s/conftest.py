"""The deployment, checked without a cluster."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # pytest's importlib mode: for manifests
