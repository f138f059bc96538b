"""What the daemon in the pictures serves."""

import data

ENDLESS = {"epochs": 0, "shuffle": True, "quiet": True, "samples": False}


def start(feedd, archive_delay_us):
    """Two datasets in the page cache, and one whose storage answers so slowly."""
    for name, size, delay_us in (("cifar100", 3074, 0), ("tokens", 8192, 0), ("archive", 3074, archive_delay_us)):
        data.add_records(feedd, name, samples=20000, size=size, **({"io_delay_us": delay_us} if delay_us else {}))
    feedd.start()
