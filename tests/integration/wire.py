"""The protocol by hand: frames, protobuf and descriptor passing, for tests that a well-behaved library does not allow.

Messages are dictionaries; their numbers come from proto/feed.proto itself, so there is no second list to keep.
"""

import array
import mmap
import os
import pathlib
import re
import select
import socket
import struct
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAX_MESSAGE = 65536
# The device of clients that attach without naming one: see harness.DEVICE.
DEVICE = os.environ.get("FEEDD_TEST_DEVICE", "").replace("host:", "HOST-")
VERSION = 1
INTEGERS = {"uint32", "uint64", "int32", "bool"}


def _read_schema():
    """{message: {field: (number, type, repeated)}} from feed.proto; nested messages go by their last name."""
    text = re.sub(r"//[^\n]*", "", (ROOT / "proto/feed.proto").read_text())
    schema, enums, stack = {}, {}, []
    token = re.compile(
        r"(message|enum|oneof)\s+(\w+)\s*\{"  # opens a block
        r"|(repeated\s+)?(\w+)\s+(\w+)\s*=\s*(\d+)\s*(?:\[[^]]*\])?\s*;"  # a field
        r"|(\w+)\s*=\s*(\d+)\s*;"  # a value of an enum
        r"|(\})"
    )
    for match in token.finditer(text):
        kind, name, repeated, type_name, field, number, value, value_number, close = match.groups()
        if kind:
            stack.append((kind, name))
            if kind == "message":
                schema[name] = {}
            elif kind == "enum":
                enums[name] = {}
        elif close:
            stack.pop()
        elif field:
            message = [name for kind, name in stack if kind == "message"][-1]
            schema[message][field] = (int(number), type_name, bool(repeated))
        else:
            owner = [name for kind, name in stack if kind == "message"][-1]
            enums[stack[-1][1]][value] = int(value_number)
            enums.setdefault(owner, {})[value] = int(value_number)
    return schema, enums


SCHEMA, ENUMS = _read_schema()


def varint(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(number, type_name, value):
    if type_name in ("string", "bytes"):
        data = value.encode() if isinstance(value, str) else value
        return varint(number << 3 | 2) + varint(len(data)) + data
    if type_name in SCHEMA:
        data = encode(type_name, value)
        return varint(number << 3 | 2) + varint(len(data)) + data
    return varint(number << 3) + varint(int(value))


def encode(message, fields):
    out = b""
    for name, value in fields.items():
        number, type_name, repeated = SCHEMA[message][name]
        if repeated and (type_name in INTEGERS):
            data = b"".join(varint(item) for item in value)
            out += varint(number << 3 | 2) + varint(len(data)) + data
        elif repeated and type_name == "fixed64":
            data = struct.pack(f"<{len(value)}Q", *value)
            out += varint(number << 3 | 2) + varint(len(data)) + data
        elif repeated:
            out += b"".join(_field(number, type_name, item) for item in value)
        else:
            out += _field(number, type_name, value)
    return out


def _take_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _take_field(data, at):
    key, at = _take_varint(data, at)
    if key & 7 == 0:
        value, at = _take_varint(data, at)
        return key >> 3, value, at
    if key & 7 != 2:
        raise ValueError(f"wire type {key & 7} is not used by this protocol")
    size, at = _take_varint(data, at)
    if at + size > len(data):
        raise ValueError("a field goes beyond its message")
    return key >> 3, data[at : at + size], at + size


def _value(type_name, value):
    if type_name == "string":
        return value.decode()
    if type_name in SCHEMA:
        return decode(type_name, value)
    if type_name == "int32":
        return value - (1 << 64) if value >> 63 else value
    return bool(value) if type_name == "bool" else value


def decode(message, data):
    """A message as a dictionary: absent scalars as 0 or "", absent lists as [], absent messages as None."""
    by_number = {number: (name, type_name, repeated) for name, (number, type_name, repeated) in SCHEMA[message].items()}
    out = {
        name: [] if repeated else None if type_name in SCHEMA else "" if type_name == "string" else 0
        for name, type_name, repeated in by_number.values()
    }
    at = 0
    while at < len(data):
        number, value, at = _take_field(data, at)
        if number not in by_number:
            continue
        name, type_name, repeated = by_number[number]
        if repeated and type_name in INTEGERS and isinstance(value, bytes):
            position = 0
            while position < len(value):
                item, position = _take_varint(value, position)
                out[name].append(item)
        elif repeated:
            out[name].append(_value(type_name, value))
        else:
            out[name] = _value(type_name, value)
    return out


def frame(payload):
    return struct.pack("<I", len(payload)) + payload


def client_message(body, **fields):
    """The payload of a frame that holds this ClientMessage."""
    number, type_name, _ = SCHEMA["ClientMessage"][body]
    return _field(number, type_name, fields)


class Closed(Exception):
    """The daemon has closed the session."""


class Client:
    """One session, spoken byte by byte. Every wait has an end."""

    def __init__(self, path, timeout_s=10.0):
        self.timeout_s = timeout_s
        self.buffer = b""
        self.stream_is_done = False  # no matter what it releases; only for the GPU of DEVICE
        self.fds = array.array("i")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout_s)
        self.socket.connect(str(path))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()
        for fd in self.fds:
            socket.close(fd)
        self.fds = array.array("i")

    def send_raw(self, data, fds=()):
        """Bytes as they are, with descriptors at the first of them."""
        try:
            if fds:
                sent = socket.send_fds(self.socket, [data], list(fds))
                data = data[sent:]
            if data:  # to send nothing would fail where the session is closed, before its last words are read
                self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error

    def send(self, body, fds=(), **fields):
        if body == "attach" and "device" not in fields and DEVICE.startswith("HOST-"):
            fields = {"device": DEVICE, "device_world_size": fields.get("local_world_size", 0), **fields}
            self.stream_is_done = True
        self.send_raw(frame(client_message(body, **fields)), fds)

    def _fill(self, deadline):
        wait = deadline - time.monotonic()
        if wait <= 0 or not select.select([self.socket], [], [], wait)[0]:
            raise TimeoutError("no message from the daemon in time")
        try:
            data, ancillary, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(8 * 4))
        except ConnectionResetError:
            data, ancillary = b"", []
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                self.fds.frombytes(content[: len(content) // 4 * 4])
        if not data:
            raise Closed
        self.buffer += data

    def receive(self, timeout_s=None):
        """The next message as (body, fields). Raises Closed or TimeoutError."""
        deadline = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        while len(self.buffer) < 4 or len(self.buffer) < 4 + struct.unpack_from("<I", self.buffer)[0]:
            self._fill(deadline)
        size = struct.unpack_from("<I", self.buffer)[0]
        assert size <= MAX_MESSAGE, f"the daemon sent a frame of {size} bytes"
        message = decode("ServerMessage", self.buffer[4 : 4 + size])
        self.buffer = self.buffer[4 + size :]
        bodies = {name: value for name, value in message.items() if value is not None}
        assert len(bodies) == 1, f"a server message with bodies {list(bodies)}"
        return next(iter(bodies.items()))

    def expect(self, body, timeout_s=None):
        """The next message, which must be of that kind; returns its fields."""
        found, fields = self.receive(timeout_s)
        assert found == body, f"wanted {body}, got {found}: {fields}"
        if found == "grant":
            assert len(fields["fills"]) == len(fields["slots"]), f"a grant of {fields}"
        if found == "attached" and self.stream_is_done:
            self.write_words(1 << 62)
        return fields

    def expect_closed(self, timeout_s=None):
        """Reads on until the daemon closes the session; returns the last Error seen, or None."""
        error = None
        deadline = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        while True:
            try:
                body, fields = self.receive(max(deadline - time.monotonic(), 0.0))
            except Closed:
                return error
            if body == "error":
                error = fields

    def hello(self, version=VERSION, client_name="wire"):
        self.send("hello", version=version, client_name=client_name)
        return self.expect("welcome")

    def attach(self, dataset, batch_size, **options):
        """Says hello and attaches; the ring's descriptor is then in self.fds."""
        self.hello()
        self.send("attach", dataset=dataset, batch_size=batch_size, **options)
        return self.expect("attached")

    def write_words(self, value):
        """Of a consumer on a GPU: says for all slots what its stream has released, by the number of the filling."""
        with mmap.mmap(self.fds[2], 0) as words:
            words[:] = struct.pack("<Q", value) * (len(words) // 8)

    def query(self, kind, name="", start=0):
        self.send("query", kind=ENUMS["Query"][kind], name=name, start=start)
        return self.expect("answer")
