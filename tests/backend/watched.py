"""Objects of which a test can tell which are alive."""

import gc
import weakref

import msgspec


class Thing(msgspec.Struct, weakref=True):
    n: int
    pad: bytes = b""


class Watched:
    """Makes things, and knows which of them are alive."""

    def __init__(self):
        self.made = weakref.WeakValueDictionary()

    def __call__(self, n):
        thing = self.made[n] = Thing(n)
        return thing

    def alive(self):
        gc.collect()
        return sorted(self.made)
