#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes pieces over an export and over the file that models it.

    pieces.py URI|FILE MODEL SEED COUNT [EDGE [no-sync]]

Places and lengths are random, from one byte to several rows, several in flight that do not overlap; EDGE (default 1)
is what both are a multiple of. Ends with a flush, unless told not to. Given a FILE (a block device), it is written with O_DIRECT.
"""

import mmap
import os
import random
import sys

LENGTHS = (1, 512, 4096, 12345, 65536, 150000, 700000)
IN_FLIGHT = 16


def pieces(rng, size, count, edge):
    for _ in range(count):
        length = min(rng.randint(1, rng.choice(LENGTHS)), size)
        length = max(edge, length - length % edge)
        offset = rng.randrange(0, size - length + 1)
        offset -= offset % edge
        yield offset, rng.randbytes(length)


def apart(batch, offset, data):
    return all(o + len(d) <= offset or offset + len(data) <= o for o, d in batch)


def to_export(uri, wanted, model, sync):
    import nbd

    h = nbd.NBD()
    h.connect_uri(uri)
    batch = []
    for offset, data in wanted(h.get_size()):
        if len(batch) == IN_FLIGHT or not apart(batch, offset, data):
            while h.aio_in_flight():
                h.poll(-1)
            batch = []
        batch.append((offset, data))
        buf = nbd.Buffer.from_bytearray(bytearray(data))
        h.aio_pwrite(buf, offset, completion=failed)
        os.pwrite(model, data, offset)
    while h.aio_in_flight():
        h.poll(-1)
    if sync:
        h.flush()
    h.shutdown()


def failed(err):
    if err.value:
        print(f"a write fails: {os.strerror(err.value)}")
        os._exit(1)
    return 1


def to_device(path, wanted, model, sync):
    fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
    for offset, data in wanted(os.lseek(fd, 0, os.SEEK_END)):
        buf = mmap.mmap(-1, len(data))
        buf[:] = data
        if os.pwrite(fd, buf, offset) != len(data):
            raise OSError("short write")
        os.pwrite(model, data, offset)
    if sync:
        os.fsync(fd)


def main():
    target, model, seed, count = sys.argv[1:5]
    edge = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    rng = random.Random(int(seed))
    fd = os.open(model, os.O_WRONLY)
    write = to_export if "://" in target else to_device
    write(target, lambda size: pieces(rng, size, int(count), edge), fd, "no-sync" not in sys.argv)


if __name__ == "__main__":
    main()
