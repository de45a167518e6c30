"""ReducingState: one value for each key, which what is added is folded into."""

from __future__ import annotations

from sfkv.state.folded import FoldedState


class ReducingState(FoldedState):
    """One value for each key, folded of all that was added to it. Made by ``keyed.reducing_state(name, type, reduce)``.

    Absent is None until something is added; None itself cannot be. Batches answer by position and may repeat keys: all that is
    added to one counts, in order. Bad input, and a function that raises, leave the state as it was for the whole call.

    Cost:
        Adding by a built-in fold needs no read: the engine folds what is added into what is stored, when that is read or
        moved. A batch is folded key by key first, and touches each distinct key once. A Python function is called for each
        value, between one batched read and one batched write.
    """
