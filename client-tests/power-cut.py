#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Client side of the power-cut test: write on several connections, flush on one, be cut off, and verify.

    power-cut.py write URI PID STATE SEED   drives the server PID, then kills it (SIGKILL) in the middle
    power-cut.py verify URI STATE           checks what the restarted server (or a half of its mirrors) has

Every 4 KiB block is owned by one connection, which writes versions 1, 2, 3 … of it, one at a time, each filled with its
number. A FLUSH on the first connection covers every write acknowledged on any connection before it was sent: when it
is acknowledged, those versions are promised (STATE keeps them). After the cut a block must hold one
version, not older than the promised one and not newer than the last one sent; blocks never written are zero.
"""

import json
import os
import random
import signal
import struct
import sys
import time

import nbd

BLOCK = 4096
CONNECTIONS = 4
DEPTH = 8  # writes in flight per connection


def content(block, version):
    if version == 0:
        return bytes(BLOCK)
    return struct.pack("<QQ", block, version) * (BLOCK // 16)


class Writer:
    """One connection with its own blocks; block b belongs to connection b % CONNECTIONS."""

    def __init__(self, uri, index, blocks, rng):
        self.h = nbd.NBD()
        self.h.connect_uri(uri)
        self.mine = [b for b in range(blocks) if b % CONNECTIONS == index]
        self.rng = rng
        self.busy = {}  # cookie: (block, version, fua)
        self.durable = {}  # acknowledged with FUA
        self.sent, self.acked = {}, {}

    def start_write(self, fua_share):
        block = self.rng.choice(self.mine)
        if any(block == b for b, _, _ in self.busy.values()):
            return
        version = self.sent.get(block, 0) + 1
        self.sent[block] = version
        flags = nbd.CMD_FLAG_FUA if self.rng.random() < fua_share else 0
        buf = nbd.Buffer.from_bytearray(bytearray(content(block, version)))
        cookie = self.h.aio_pwrite(buf, block * BLOCK, flags=flags)
        self.busy[cookie] = (block, version, flags != 0)

    def reap(self):
        while True:
            cookie = self.h.aio_peek_command_completed()
            if cookie <= 0:
                return
            if self.h.aio_command_completed(cookie) and cookie in self.busy:
                block, version, fua = self.busy.pop(cookie)
                self.acked[block] = version
                if fua:
                    self.durable[block] = version


def write(uri, pid, state, seed):
    rng = random.Random(seed)
    probe = nbd.NBD()
    probe.connect_uri(uri)
    blocks = min(probe.get_size() // BLOCK, 512)
    writers = [Writer(uri, i, blocks, random.Random(f"{seed}/{i}")) for i in range(CONNECTIONS)]
    promised, flush, snapshot, flushes = {}, None, {}, 0
    end = time.monotonic() + rng.uniform(0.4, 1.2)
    # No FLUSH in the last moments: what is promised then, FUA alone has promised.
    while (now := time.monotonic()) < end or flushes < 2:
        last = now > end - 0.2 and flushes >= 2
        for w in writers:
            while len(w.busy) < DEPTH and rng.random() < 0.9:
                w.start_write(0.3 if last else 0.02)
        first = writers[0].h
        if flush is None and not last and rng.random() < 0.2:
            snapshot = {b: v for w in writers for b, v in w.acked.items()}
            flush = first.aio_flush()
        for w in writers:
            w.h.poll(1)
            if w is writers[0] and flush is not None and w.h.aio_command_completed(flush):
                promised.update(snapshot)  # versions only rise: one write of a block at a time
                flush, flushes = None, flushes + 1
            w.reap()
    os.kill(pid, signal.SIGKILL)
    for w in writers:
        promised.update({b: max(v, promised.get(b, 0)) for b, v in w.durable.items()})
    sent = {b: v for w in writers for b, v in w.sent.items()}
    with open(state, "w", encoding="ascii") as f:
        json.dump({"blocks": blocks, "promised": promised, "sent": sent}, f)
    print(f"{sum(sent.values())} writes, {flushes} flushes, {len(promised)} blocks promised")


def verify(uri, state):
    with open(state, encoding="ascii") as f:
        s = json.load(f)
    h = nbd.NBD()
    h.connect_uri(uri)
    old = bad = 0
    for block in range(s["blocks"]):
        data = h.pread(BLOCK, block * BLOCK)
        low, high = s["promised"].get(str(block), 0), s["sent"].get(str(block), 0)
        version = struct.unpack_from("<Q", data, 8)[0]
        if version > high or bytes(data) != content(block, version):
            print(f"block {block}: neither old nor new: {bytes(data[:16]).hex()}")
            bad += 1
        elif version < low:
            print(f"block {block}: version {version}, but {low} had been flushed")
            bad += 1
        old += version < high
    if bad:
        sys.exit(f"{bad} of {s['blocks']} blocks are wrong")
    print(f"{s['blocks']} blocks right, {old} of them without their last write")


if __name__ == "__main__":
    if len(sys.argv) == 6 and sys.argv[1] == "write":
        write(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
    elif len(sys.argv) == 4 and sys.argv[1] == "verify":
        verify(sys.argv[2], sys.argv[3])
    else:
        sys.exit(__doc__)
