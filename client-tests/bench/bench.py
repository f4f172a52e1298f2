# SPDX-License-Identifier: BSD-3-Clause
"""What the benchmarks share: servers, fio as their client, interleaved rounds.

A benchmark states figures and no verdict: the machine's noise decides how many rounds are needed.
"""

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD", os.path.join(TOP, "build"))
MIB = 1 << 20


def need_programs(*programs):
    missing = [p for p in programs if not shutil.which(p)]
    if missing:
        sys.exit(f"needs {', '.join(missing)}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def fill(path, size):
    """Write it all, with bytes that no file system can leave out."""
    block = os.urandom(MIB)
    with open(path, "wb") as f:
        for _ in range(size // MIB):
            f.write(block)
        os.fsync(f.fileno())


class Server:
    def __init__(self, name, argv, port):
        self.name, self.port = name, port
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"{name} does not start: {' '.join(argv)}")
                time.sleep(0.05)

    def cpu_seconds(self):
        """User and system time of the whole process, ended threads included."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


class Array(Server):
    """An array that nbd-raidctl made on these members, served by nbd-raidd."""

    def __init__(self, members, control, loops=1, prefix=()):
        port = free_port()
        self.control = control
        super().__init__("nbd-raidd", [*prefix, os.path.join(BUILD, "nbd-raidd"), "-f", f"--control={control}",
                                       "--log-level=warning", f"--loops={loops}", f"--array=x:{','.join(members)}",
                                       f"--listen=127.0.0.1:{port}"], port)

    @staticmethod
    def create(level, members, *options):
        subprocess.run([os.path.join(BUILD, "nbd-raidctl"), "create", f"--level={level}", "-ff", *options,
                        *members], check=True, stdout=subprocess.DEVNULL)

    def ctl(self, command, *arguments):
        """What a command of nbd-raidctl says."""
        return subprocess.run([os.path.join(BUILD, "nbd-raidctl"), command, f"--control={self.control}", *arguments],
                              check=True, stdout=subprocess.PIPE).stdout

    def status(self):
        return json.loads(self.ctl("status", "--json"))["arrays"][0]

    def wait_in_sync(self, seconds=300):
        deadline = time.monotonic() + seconds
        while True:
            array = self.status()
            if not array["degraded"] and not array["needs_resync"]:
                return
            if time.monotonic() > deadline:
                sys.exit(f"the array is not in sync after {seconds} s: {array}")
            time.sleep(0.1)


def run_fio(server, options, seconds, size):
    before = server.cpu_seconds()
    out = subprocess.run(
        ["fio", "--name=j", "--ioengine=nbd", f"--uri=nbd://127.0.0.1:{server.port}/", "--direct=1",
         f"--size={size}", "--time_based", f"--runtime={seconds}", "--group_reporting", "--norandommap",
         "--randrepeat=0", "--output-format=json", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    cpu = server.cpu_seconds() - before
    if out.returncode:
        sys.exit(f"fio fails against {server.name}: {out.stderr.decode()}{out.stdout.decode()[:2000]}")
    text = out.stdout.decode()
    job = json.loads(text[text.index("{"):])["jobs"][0]
    side = job["read"] if job["read"]["total_ios"] else job["write"]
    return {"iops": side["iops"], "bytes_s": side["bw_bytes"], "cpu_per_request": cpu / side["total_ios"],
            "cpu_per_byte": cpu / side["io_bytes"], "p99_us": side["clat_ns"]["percentile"]["99.000000"] / 1000}


def median_of(rows, key):
    return statistics.median(row[key] for row in rows)


def side_by_side(ours, theirs, options, rounds, seconds, size):
    """Interleaved rounds (A B, B A, A B …): medians of each, and the median of the ratios pair by pair."""
    pairs = []
    for server in (ours, theirs):
        run_fio(server, options, 1, size)  # warm up
    for i in range(rounds):
        order = (ours, theirs) if i % 2 == 0 else (theirs, ours)
        pairs.append({server: run_fio(server, options, seconds, size) for server in order})
    a, b = [p[ours] for p in pairs], [p[theirs] for p in pairs]
    result = {"ours": {k: median_of(a, k) for k in a[0]}, "theirs": {k: median_of(b, k) for k in b[0]}}
    for key, of in (("speed", "bytes_s"), ("cpu_request", "cpu_per_request"), ("cpu_byte", "cpu_per_byte")):
        result[key] = statistics.median(x[of] / y[of] for x, y in zip(a, b))
    result["all"] = [[round(x["bytes_s"] / MIB), round(y["bytes_s"] / MIB)] for x, y in zip(a, b)]
    return result


def print_pair(name, result, unit):
    """unit: what CPU time is counted by, "request" or "byte"."""
    ours, theirs = result["ours"], result["theirs"]
    key, scale, what = ("iops", 1, "IOPS") if unit == "request" else ("bytes_s", MIB, "MiB/s")
    cpu, cpu_scale, cpu_what = (("cpu_per_request", 1e6, "µs/request") if unit == "request"
                                else ("cpu_per_byte", 1e6 * MIB, "µs/MiB"))
    print(f"{name:22} {ours[key] / scale:9.0f} against {theirs[key] / scale:9.0f} {what:5} = {result['speed']:.2f}x"
          f"   CPU {ours[cpu] * cpu_scale:7.2f} against {theirs[cpu] * cpu_scale:7.2f} {cpu_what}"
          f" = {result['cpu_' + unit]:.2f}x   p99 {ours['p99_us']:.0f} against {theirs['p99_us']:.0f} µs", flush=True)
