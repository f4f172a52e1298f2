#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Change fields of the version 1.2 superblock at byte 4096 of member files; the checksum is made right again.

    superblock.py FILE FIELD=VALUE...     FIELD=+VALUE or |VALUE adds or sets bits; VALUE as in Python
"""

import struct
import sys

AT = 4096
FIELDS = {  # offset, struct code
    "feature_map": (8, "<I"), "set_uuid_low": (16, "<I"), "level": (72, "<i"), "layout": (76, "<I"), "size": (80, "<Q"),
    "chunksize": (88, "<I"), "raid_disks": (92, "<I"), "bitmap_offset": (96, "<i"), "ppl_offset": (96, "<h"),
    "ppl_size": (98, "<H"), "reshape_position": (104, "<Q"), "data_offset": (128, "<Q"), "data_size": (136, "<Q"),
    "recovery_offset": (152, "<Q"), "dev_number": (160, "<I"), "bblog_size": (186, "<H"),
    "bblog_offset": (188, "<i"), "events": (200, "<Q"), "resync_offset": (208, "<Q"), "max_dev": (220, "<I"),
}


def checksum(sb):
    n = 256 + 2 * struct.unpack_from("<I", sb, 220)[0]
    data = bytes(sb[:216]) + bytes(4) + bytes(sb[220:n])
    total = sum(struct.unpack(f"<{n // 4}I", data[:n // 4 * 4]))
    if n % 4:
        total += struct.unpack("<H", data[n - 2:n])[0]
    return ((total & 0xffffffff) + (total >> 32)) & 0xffffffff


def main(path, words):
    with open(path, "r+b") as f:
        f.seek(AT)
        sb = bytearray(f.read(4096))
        if struct.unpack_from("<I", sb)[0] != 0xA92B4EFC:
            sys.exit(f"{path}: no superblock")
        for word in words:
            name, value = word.split("=")
            if name.startswith("role"):
                at, code = 256 + 2 * int(name[4:]), "<H"
            else:
                at, code = FIELDS[name]
            old = struct.unpack_from(code, sb, at)[0]
            if value[0] == "+":
                new = old + int(value[1:], 0)
            elif value[0] == "|":
                new = old | int(value[1:], 0)
            else:
                new = int(value, 0)
            struct.pack_into(code, sb, at, new)
        struct.pack_into("<I", sb, 216, checksum(sb))
        f.seek(AT)
        f.write(sb)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
