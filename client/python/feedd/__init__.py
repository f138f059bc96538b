"""feedd for Python: batches from the feedd daemon, as tensors over its memory.

``DataLoader`` is shaped like torch's: change the import and the first argument, and iterate. ``Dataset`` looks at single
samples. ``serve`` runs a private daemon where no service runs. Nothing but this package is needed; PyTorch, JAX, CuPy
and NumPy are used where they are.
"""

from ._feed import Array, version as __version__
from .dataset import Dataset
from .errors import Error, OptionError, Timeout, TooManyBatches, Unavailable
from .loader import DataLoader
from .service import Service, serve

__all__ = [
    "Array",
    "DataLoader",
    "Dataset",
    "Error",
    "OptionError",
    "Service",
    "Timeout",
    "TooManyBatches",
    "Unavailable",
    "__version__",
    "serve",
]
