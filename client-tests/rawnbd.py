# SPDX-License-Identifier: BSD-3-Clause
"""A raw NBD client for the protocol tests: says what no honest client says, byte by byte.

Used by `rawnbd` scripts (see functions.sh: rawnbd_test). Numbers are those of the protocol text
(NetworkBlockDevice/nbd doc/proto.md). Everything raises AssertionError with what was expected and what came.
"""

import os
import select
import socket
import struct
import time

NBDMAGIC, IHAVEOPT, REPMAGIC = 0x4E42444D41474943, 0x49484156454F5054, 0x0003E889045565A9
REQUEST, SIMPLE, STRUCTURED = 0x25609513, 0x67446698, 0x668E33EF

FIXED_NEWSTYLE, NO_ZEROES = 1, 2
OPT_EXPORT_NAME, OPT_ABORT, OPT_LIST, OPT_STARTTLS, OPT_INFO, OPT_GO, OPT_STRUCTURED_REPLY = 1, 2, 3, 5, 6, 7, 8
OPT_LIST_META, OPT_SET_META, OPT_EXTENDED_HEADERS = 9, 10, 11
REP_ACK, REP_SERVER, REP_INFO = 1, 2, 3
ERR = 1 << 31
ERR_UNSUP, ERR_POLICY, ERR_INVALID, ERR_UNKNOWN, ERR_SHUTDOWN, ERR_TOO_BIG = (
    ERR + 1, ERR + 2, ERR + 3, ERR + 6, ERR + 7, ERR + 9)
INFO_EXPORT, INFO_NAME, INFO_DESCRIPTION, INFO_BLOCK_SIZE = 0, 1, 2, 3

READ, WRITE, DISC, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS = range(8)
FUA, NO_HOLE, DF, REQ_ONE, FAST_ZERO = 1, 2, 4, 8, 16
F_HAS_FLAGS, F_READ_ONLY, F_FLUSH, F_FUA, F_ROTATIONAL, F_TRIM, F_ZEROES, F_DF, F_MULTI, F_CACHE, F_FAST_ZERO = (
    1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 2048)
DONE, NONE, DATA, HOLE, ERROR, ERROR_OFFSET = 1, 0, 1, 2, 0x8001, 0x8002
EPERM, EIO, ENOMEM, EINVAL, ENOSPC, EOVERFLOW, ENOTSUP, ESHUTDOWN = 1, 5, 12, 22, 28, 75, 95, 108

TIMEOUT_S = 30
# A sanitizer's shadow memory counts as resident: bounds on memory are wider there.
MEMORY_FACTOR = 4 if os.path.basename(os.environ.get("BUILD", "")) in ("build-san", "build-tsan") else 1


class Closed(Exception):
    """The server closed the connection."""


class Client:
    def __init__(self, where=None, sndbuf=None, rcvbuf=None):
        """Connect to a unix socket's path, or (host, port); default: the one of the captive server."""
        where = where or os.environ["unixsocket"]
        self.s = socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET)
        self.s.settimeout(TIMEOUT_S)
        if sndbuf:
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sndbuf)
        if rcvbuf:
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.s.connect(where)
        self.structured = False
        self.cookie = 1000

    # ---- bytes
    def send(self, data):
        self.s.sendall(data)

    def recv(self, n):
        data = b""
        while len(data) < n:
            try:
                piece = self.s.recv(min(n - len(data), 1 << 20))
            except ConnectionResetError as e:
                raise Closed from e
            if not piece:
                raise Closed(f"after {len(data)} of {n} bytes: {data[:64].hex()}")
            data += piece
        return data

    def quiet(self, seconds=0.1):
        """True if the server says nothing (and does not close) for so long."""
        return not select.select([self.s], [], [], seconds)[0]

    def closed(self):
        """The server must close now without another byte."""
        try:
            data = self.s.recv(1 << 16)
        except ConnectionResetError:
            return
        assert data == b"", f"wanted an end of the connection, got {data[:64].hex()}"

    # ---- handshake
    def greet(self, flags=FIXED_NEWSTYLE | NO_ZEROES):
        magic, opt, server = struct.unpack(">QQH", self.recv(18))
        assert (magic, opt) == (NBDMAGIC, IHAVEOPT), "greeting"
        self.server_flags = server
        if flags is not None:
            self.send(struct.pack(">I", flags))
        return self

    def option(self, opt, data=b"", length=None):
        self.send(struct.pack(">QII", IHAVEOPT, opt, len(data) if length is None else length) + data)

    def reply(self, opt=None):
        """One option reply: (type, data)."""
        magic, got, kind, length = struct.unpack(">QIII", self.recv(20))
        assert magic == REPMAGIC, f"option reply magic {magic:#x}"
        assert opt is None or got == opt, f"reply to option {got}, wanted {opt}"
        assert length <= 1 << 20, f"reply of {length} bytes"
        return kind, self.recv(length)

    def replies(self, opt):
        """All replies to an option up to the final one: a list of (type, data)."""
        out = []
        while True:
            out.append(self.reply(opt))
            if out[-1][0] not in (REP_SERVER, REP_INFO):
                return out

    def refused(self, opt, kind, data=b"", length=None):
        self.option(opt, data, length)
        got, text = self.reply(opt)
        assert got == kind, f"option {opt}: {got:#x} ({text!r}), wanted {kind:#x}"
        assert len(text) <= 4096, f"error text of {len(text)} bytes"
        text.decode("utf-8")
        return text

    @staticmethod
    def go_data(name="", infos=(), name_length=None, count=None):
        name = name.encode() if isinstance(name, str) else name
        return (struct.pack(">I", len(name) if name_length is None else name_length) + name
                + struct.pack(">H", len(infos) if count is None else count)
                + b"".join(struct.pack(">H", i) for i in infos))

    def info(self, name="", infos=(), opt=OPT_GO):
        """INFO or GO that must succeed: dict of info type to data; sets size and flags."""
        self.option(opt, self.go_data(name, infos))
        replies = self.replies(opt)
        assert replies[-1][0] == REP_ACK, f"option {opt} {name!r}: {replies[-1]}"
        found = {}
        for kind, data in replies[:-1]:
            assert kind == REP_INFO
            found[struct.unpack(">H", data[:2])[0]] = data[2:]
        assert INFO_EXPORT in found, "no INFO_EXPORT before the ACK"
        self.size, self.flags = struct.unpack(">QH", found[INFO_EXPORT])
        return found

    def structured_reply(self):
        self.option(OPT_STRUCTURED_REPLY)
        assert self.reply(OPT_STRUCTURED_REPLY) == (REP_ACK, b"")
        self.structured = True
        return self

    def go(self, name="", structured=False):
        """The usual handshake up to transmission."""
        self.greet()
        if structured:
            self.structured_reply()
        self.info(name)
        return self

    # ---- transmission
    @staticmethod
    def request(command, offset=0, length=0, flags=0, cookie=0, magic=REQUEST):
        return struct.pack(">IHHQQI", magic, flags, command, cookie, offset, length)

    def start(self, command, offset=0, length=0, flags=0, data=b"", cookie=None):
        """Send a request; returns its cookie."""
        if cookie is None:
            self.cookie += 1
            cookie = self.cookie
        if command == WRITE and not length:
            length = len(data)
        self.send(self.request(command, offset, length, flags, cookie) + data)
        return cookie

    def message(self, read_lengths=None):
        """One reply message. Simple: ('simple', cookie, error, data). Chunk: (type, cookie, flags, payload).

        read_lengths: {cookie: length} of the READs in flight, needed for simple replies with data."""
        magic = struct.unpack(">I", self.recv(4))[0]
        if magic == SIMPLE:
            error, cookie = struct.unpack(">IQ", self.recv(12))
            n = (read_lengths or {}).get(cookie, 0)
            return "simple", cookie, error, self.recv(n) if n and not error else b""
        assert magic == STRUCTURED and self.structured, f"reply magic {magic:#x}"
        flags, kind, cookie, length = struct.unpack(">HHQI", self.recv(16))
        assert length <= 64 << 20, f"chunk of {length} bytes"
        assert kind != NONE or (flags & DONE and length == 0), "chunk of type NONE without DONE"
        return kind, cookie, flags, self.recv(length)

    def finish(self, cookie, command, offset, length):
        """Take the messages of one request, none other being in flight: (error, data, chunks)."""
        buf, covered, chunks, error = bytearray(length if command == READ else 0), [], 0, 0
        while True:
            kind, got, flags, payload = self.message({cookie: length} if command == READ else None)
            assert got == cookie, f"cookie {got}, wanted {cookie}"
            if kind == "simple":
                assert command != READ or not self.structured, "READ answered by a simple reply"
                return flags, payload, 0
            chunks += 1
            if kind == DATA:
                at = struct.unpack(">Q", payload[:8])[0] - offset
                data = payload[8:]
                assert data and 0 <= at and at + len(data) <= length, "content chunk outside the request"
                assert all(at + len(data) <= a or b <= at for a, b in covered), "overlapping content"
                covered.append((at, at + len(data)))
                buf[at:at + len(data)] = data
            elif kind == HOLE:
                start, n = struct.unpack(">QI", payload)
                covered.append((start - offset, start - offset + n))
            elif kind in (ERROR, ERROR_OFFSET):
                error, n = struct.unpack(">IH", payload[:6])
                payload[6:6 + n].decode("utf-8")
                assert error, "error chunk without an error"
            else:
                assert kind == NONE, f"chunk type {kind}"
            if flags & DONE:
                break
        if command == READ and not error:
            assert sum(b - a for a, b in covered) == length, "content does not cover the request"
        return error, bytes(buf), chunks

    def do(self, command, offset=0, length=0, flags=0, data=b""):
        """One request and its answer: (error, data)."""
        if command == WRITE:
            length = length or len(data)
        cookie = self.start(command, offset, length, flags, data)
        error, got, _ = self.finish(cookie, command, offset, length)
        return error, got

    def fails(self, error, command, offset=0, length=0, flags=0, data=b""):
        got, _ = self.do(command, offset, length, flags, data)
        assert got == error, f"command {command} at {offset}+{length} flags {flags}: error {got}, wanted {error}"

    def ok(self, command, offset=0, length=0, flags=0, data=b""):
        got, back = self.do(command, offset, length, flags, data)
        assert got == 0, f"command {command} at {offset}+{length} flags {flags}: error {got}"
        return back

    def alive(self):
        """The next request still parses and is answered."""
        self.ok(READ, 0, 512)

    def disconnect(self):
        self.start(DISC)
        self.closed()


def eventually(check, seconds=TIMEOUT_S):
    """Poll until check() is true."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def pattern(seed, n):
    """n bytes that differ from place to place and from seed to seed."""
    return b"".join(struct.pack(">II", seed, i) for i in range((n + 7) // 8))[:n]
