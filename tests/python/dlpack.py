"""DLPack capsules taken apart with ctypes: what a consumer sees. The structures are those of DLPack 1.0's dlpack.h."""

import ctypes

CPU = 1
api = ctypes.pythonapi
api.PyCapsule_GetName.restype = ctypes.c_char_p
api.PyCapsule_GetName.argtypes = [ctypes.py_object]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}  # a capsule keeps the pointer, so they live on


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_number", ctypes.c_int32),
        ("dimensions", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip

    def sizes(self):
        return self.shape[: self.dimensions]

    def steps(self):
        return self.strides[: self.dimensions]


class Plain(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", DELETER),
        ("flags", ctypes.c_uint64), ("tensor", Tensor),
    ]  # fmt: skip


class Managed:
    """A tensor that a consumer has taken over."""

    def __init__(self, pointer, versioned):
        self.pointer = pointer
        self.managed = ctypes.cast(pointer, ctypes.POINTER(Versioned if versioned else Plain)).contents

    @property
    def tensor(self):
        return self.managed.tensor

    def bytes(self):
        tensor = self.tensor
        size = tensor.bits // 8
        for extent in tensor.sizes():
            size *= extent
        return ctypes.string_at(tensor.data + tensor.byte_offset, size)

    def delete(self):
        self.managed.deleter(self.pointer)


class Capsule(Managed):
    """One that an Array gave."""

    def __init__(self, capsule):
        self.capsule = capsule
        self.versioned = api.PyCapsule_GetName(capsule) == NAMES[True]
        super().__init__(api.PyCapsule_GetPointer(capsule, NAMES[self.versioned]), self.versioned)

    @property
    def version(self):
        return self.managed.major, self.managed.minor

    @property
    def read_only(self):
        return bool(self.managed.flags & 1)

    @property
    def copied(self):
        return bool(self.managed.flags & 2)

    def consume(self):
        """Takes the tensor over, as a framework does."""
        pointer = api.PyCapsule_GetPointer(self.capsule, NAMES[self.versioned])
        api.PyCapsule_SetName(self.capsule, USED[self.versioned])
        return Managed(pointer, self.versioned)

    def drop(self):
        """Lets go of the capsule, and of its tensor if nobody has taken it."""
        self.capsule = None
