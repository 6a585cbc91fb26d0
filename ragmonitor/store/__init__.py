"""Where sums and small histories are kept: in memory, in an SQLite file, or on Redis."""

from ragmonitor.store.buckets import (
    BET_S,
    DAY_S,
    HOUR_S,
    MEAN_S,
    Increments,
    Rows,
    merge,
    merge_buckets,
)
from ragmonitor.store.budget import Budget
from ragmonitor.store.interface import Added, Change, Key, Settlement, Store, StoreUnavailableError
from ragmonitor.store.opening import open_store, store_at
from ragmonitor.store.outbox import Outbox
from ragmonitor.store.redis import Redis
from ragmonitor.store.shared import OTHER, Admission, takes_lease
from ragmonitor.store.sqlite import Memory, Sqlite

__all__ = [
    "BET_S",
    "DAY_S",
    "HOUR_S",
    "MEAN_S",
    "OTHER",
    "Added",
    "Admission",
    "Budget",
    "Change",
    "Increments",
    "Key",
    "Memory",
    "Outbox",
    "Redis",
    "Rows",
    "Settlement",
    "Sqlite",
    "Store",
    "StoreUnavailableError",
    "merge",
    "merge_buckets",
    "open_store",
    "store_at",
    "takes_lease",
]
