from __future__ import annotations
import os.path, numpy as np
from .store import (
    Store,
    open_store as connect,
)
from shop import *
class Cart:
    def total(self):
        self.client.session.get(np.sum([1]))
        return connect().items(os.path.join("a", str(2)))
