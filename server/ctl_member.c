/* SPDX-License-Identifier: BSD-3-Clause */
/* Superblocks on a member as nbd-raidctl looks at them: all of them, damaged ones too. */
#include <errno.h>
#include <string.h>

#include "raid/base/bytes.h"
#include "raid/why.h"
#include "server/ctl_common.h"

enum { V1_CSUM_AT = 216, V1_MAX_DEV_AT = 220 };

/* A v1 superblock with a wrong checksum is decoded as if it were right, to show what it says. */
static void decode_damaged(struct ctl_found *f, uint64_t dev_sectors)
{
	uint8_t fixed[SB_BYTES_MAX];
	char why[RAID_WHY_BYTES];
	uint32_t max_dev = get_le32(f->raw + V1_MAX_DEV_AT);

	if (f->loc.version == SB_V0_90 || max_dev > SB_ROLES_MAX) {
		f->err = -EUCLEAN;
		return;
	}
	f->csum_expected = sb_checksum(f->raw, max_dev);
	memcpy(fixed, f->raw, sizeof fixed);
	put_le32(fixed + V1_CSUM_AT, f->csum_expected);
	if (sb_decode(fixed, f->loc, dev_sectors, &f->sb, why) != 0) {
		f->err = -EUCLEAN;
	}
	f->sb.sb_csum = get_le32(f->raw + V1_CSUM_AT);
}

uint32_t ctl_find_superblocks(const struct member_dev *dev,
			      struct ctl_found found[SB_LOCATIONS_MAX])
{
	uint64_t dev_sectors = dev->props.size_bytes / RAID_SECTOR_BYTES;
	struct sb_location loc[SB_LOCATIONS_MAX];
	uint32_t locations = sb_locations(dev_sectors, loc), count = 0;

	for (uint32_t i = 0; i < locations; i++) {
		struct ctl_found *f = &found[count];

		memset(f, 0, sizeof *f);
		f->loc = loc[i];
		f->err = device_read(dev, loc[i].sector * RAID_SECTOR_BYTES, f->raw, sizeof f->raw);
		if (f->err) {
			why_set(f->why, f->err, "cannot read sector %llu: %s",
				(unsigned long long)loc[i].sector, strerror(-f->err));
		} else {
			f->err = sb_decode(f->raw, loc[i], dev_sectors, &f->sb, f->why);
		}
		if (f->err == -EBADMSG) {
			decode_damaged(f, dev_sectors);
		}
		count += f->err != -ENOENT;
	}
	return count;
}

static bool newer(const struct sb *a, const struct sb *b)
{
	return a->ctime_s > b->ctime_s || (a->ctime_s == b->ctime_s && a->ctime_us > b->ctime_us);
}

const struct ctl_found *ctl_best_superblock(const struct ctl_found *found, uint32_t count)
{
	const struct ctl_found *best = NULL;

	for (uint32_t i = 0; i < count; i++) {
		const struct ctl_found *f = &found[i];

		if (!best || (f->err == 0 && (best->err != 0 || newer(&f->sb, &best->sb)))) {
			best = f;
		}
	}
	return best;
}

int ctl_wipe(const struct member_dev *dev, struct sb_location loc)
{
	static const uint8_t zeroes[SB_BYTES_MAX];

	return device_write(dev, loc.sector * RAID_SECTOR_BYTES, zeroes, sizeof zeroes);
}
