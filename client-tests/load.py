#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Clients at work until SIGTERM: several connections write, flush and read at random, each in a part of its own, and compare
what they read with what they wrote. At the end everything is read once more.

    load.py URI OFFSET BYTES [CONNECTIONS]
"""

import random
import signal
import sys
import threading

import nbd

stop = threading.Event()
failures = []


def work(uri, offset, size, seed):
    rng = random.Random(seed)
    h = nbd.NBD()
    h.connect_uri(uri)
    model = bytearray(size)
    h.zero(size, offset)
    operations = 0
    while not stop.is_set():
        at = rng.randrange(size)
        n = min(rng.choice((512, 4096, 4096, 20000, 65536, 131072, 300000)), size - at)
        if rng.random() < 0.5:
            at = at // 4096 * 4096
        what = rng.random()
        if what < 0.5:
            data = rng.randbytes(n)
            h.pwrite(data, offset + at, nbd.CMD_FLAG_FUA if what < 0.05 else 0)
            model[at:at + n] = data
        elif what < 0.55:
            h.zero(n, offset + at)
            model[at:at + n] = bytes(n)
        elif what < 0.6:
            h.flush()
        elif h.pread(n, offset + at) != model[at:at + n]:
            raise AssertionError(f"wrong data in {n} bytes at {offset + at}")
        operations += 1
    if h.pread(size, offset) != model:
        raise AssertionError(f"wrong data at the end, in {size} bytes at {offset}")
    h.shutdown()
    print(f"{operations} operations at {offset}")


def guarded(*args):
    try:
        work(*args)
    except Exception as e:  # of any kind: the test fails
        failures.append(e)
        stop.set()


def main(uri, offset, size, connections=4):
    part = size // connections
    threads = [threading.Thread(target=guarded, args=(uri, offset + i * part, part, i)) for i in range(connections)]
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    for t in threads:
        t.start()
    print("works", flush=True)
    for t in threads:
        t.join()
    for f in failures:
        print(f"FAIL: {f}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
