"""The scenarios of make check-fault."""

RECONNECT_MS = 60000
# How the victim's batches are read, and where they are delivered. On a GPU it is one that does not reconnect.
KINDS = {
    "uring": {"io": "uring", "reconnect_timeout": RECONNECT_MS},
    "mapped": {"io": "mapped", "reconnect_timeout": RECONNECT_MS},
    "pread": {"io": "pread", "reconnect_timeout": RECONNECT_MS},
    "gpu": {"io": "uring", "device": "host:0", "device_world_size": 1},
    "grown": {"io": "uring", "device": "host:0", "device_world_size": 1},
    "images": {"io": "uring", "reconnect_timeout": RECONNECT_MS},
    "prepared": {"io": "uring", "reconnect_timeout": RECONNECT_MS},
}
# Which roles are looked at in which scenario. What is the same in all is done once.
ROLES_OF = {
    "uring": ("supervisor", "spawn", "start", "loader", "consumer"),
    "mapped": ("loader",),
    "pread": ("loader",),
    "gpu": ("supervisor", "spawn", "transfer", "consumer"),
    "grown": ("supervisor", "transfer", "consumer"),
    "images": ("loader",),
    "prepared": ("supervisor", "spawn", "start", "prepared", "loader"),
}
