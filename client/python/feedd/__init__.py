"""feedd for Python: batches from the feedd daemon, as tensors over its memory.

``DataLoader`` has torch's interface: change the import and the first argument, and iterate. ``Dataset`` gives single
samples, for looking at data. ``serve`` runs a private daemon where there is no service. The package depends on no other;
it uses PyTorch, JAX, CuPy and NumPy if they are installed.
"""

from ._feed import Array, version as __version__
from .dataset import Dataset
from .errors import Error, OptionError, Timeout, TooManyBatches, Unavailable
from .loader import DataLoader
from .mixing import CutMix, MixUp, mixed
from .service import Service, serve

__all__ = [
    "Array",
    "CutMix",
    "DataLoader",
    "Dataset",
    "Error",
    "MixUp",
    "OptionError",
    "Service",
    "Timeout",
    "TooManyBatches",
    "Unavailable",
    "__version__",
    "mixed",
    "serve",
]
