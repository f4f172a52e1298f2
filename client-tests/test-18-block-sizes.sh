#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 18: minimum a power of 2 up to 64 KiB, preferred a power of 2 of at least 512 and the minimum, maximum at least
# 1 MiB; the export's size is a multiple of the minimum.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
c = Client().greet()
low, preferred, high = struct.unpack(">III", c.info("x", (INFO_BLOCK_SIZE,))[INFO_BLOCK_SIZE])
assert low & (low - 1) == 0 and 1 <= low <= 65536
assert preferred & (preferred - 1) == 0 and preferred >= max(512, low)
assert high >= max(preferred, 1 << 20) and (high % low == 0 or high == 0xffffffff)
assert high == 32 << 20, high
assert c.size % low == 0
PY
