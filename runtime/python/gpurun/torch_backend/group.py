"""What a group of torch.distributed is to this version of PyTorch.

Since 2.15 a Python class can be a Backend, one of those of a ProcessGroup. Before, Backend has no constructor, and the
class is a ProcessGroup of its own, which says itself what PyTorch asks of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch._C._distributed_c10d import Backend, ProcessGroup


def _can_be_derived() -> bool:
    class Derived(Backend):
        def __init__(self) -> None:
            super().__init__(0, 1)

    try:
        Derived()
    except TypeError:
        return False
    return True


class OwnProcessGroup(ProcessGroup):
    """The base of groups before PyTorch 2.15."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._name = ""
        self._description = ""

    @property
    def group_name(self) -> Any:
        return self._name

    @property
    def group_desc(self) -> str:
        return self._description

    def getGroupName(self) -> str:
        return self._name

    def getGroupDesc(self) -> str:
        return self._description

    def _set_group_name(self, name: str) -> None:
        self._name = name

    setGroupName = _set_group_name

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    setGroupDesc = _set_group_desc


if TYPE_CHECKING:
    Group = Backend
else:
    Group = Backend if _can_be_derived() else OwnProcessGroup
