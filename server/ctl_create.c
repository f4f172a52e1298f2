/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbd-raidctl create: lay out a new array.
 *
 * In this order, and each step for all members before the next: open and lock; look for what is
 * there (nothing is overwritten unless forced, a live array only if forced twice); plan; say the
 * plan; allocate the files; claim the array in mdadm.conf, if wanted; zero the data, if wanted;
 * erase old superblocks; write bitmap and superblock; read them back. Up to the zeroing and erasing
 * a refusal leaves every byte as it was. Should a write fail, no superblock of the new array stays
 * behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/ctl_create.h"

/* ---- opening and checking -------------------------------------------------------------------- */

static int random_bytes(void *buf, size_t n)
{
	return getrandom(buf, n, 0) == (ssize_t)n ? 0 : -EIO;
}

/* With --file-size a member that does not exist is made, empty, of that size. */
static int make_file(struct create_member *m, uint64_t bytes)
{
	int fd = open(m->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int err = 0;

	if (fd < 0 && errno == EEXIST) {
		return CTL_OK;
	}
	if (fd < 0) {
		return ctl_refused("cannot make %s: %s", m->path, strerror(errno));
	}
	m->made = true;
	if (ftruncate(fd, (off_t)bytes) < 0) {
		err = errno;
	}
	close(fd);
	return err ? ctl_refused("cannot make %s: %s", m->path, strerror(err)) : CTL_OK;
}

static int open_members(struct create_args *a)
{
	struct device_options opt = {.lock_wait_ms = CTL_LOCK_WAIT_MS};
	char why[RAID_WHY_BYTES];
	struct stat st;

	for (uint32_t i = 0; i < a->members; i++) {
		struct create_member *m = &a->member[i];

		if (!m->path) {
			continue;
		}
		for (uint32_t k = 0; k < i; k++) {
			if (a->member[k].path && device_same(a->member[k].path, m->path)) {
				return ctl_refused("%s and %s are the same device",
						   a->member[k].path, m->path);
			}
		}
		if (a->file_bytes && make_file(m, a->file_bytes) != CTL_OK) {
			return CTL_REFUSED;
		}
		if (device_open(m->path, &opt, &m->dev, why) < 0) {
			return ctl_refused("%s%s", why,
					   stat(m->path, &st) < 0 && errno == ENOENT
						   ? "; --file-size=SIZE makes files"
						   : "");
		}
		m->regular = fstat(m->dev.fd, &st) == 0 && S_ISREG(st.st_mode);
	}
	return CTL_OK;
}

/* What is on a member, and how often --force must be said to lose it. */
static uint32_t look_at(struct create_member *m, char what[RAID_WHY_BYTES])
{
	struct ctl_found found[SB_LOCATIONS_MAX];
	uint32_t count = ctl_find_superblocks(&m->dev, found), need = 0;
	char uuid[37], name[64];

	for (uint32_t i = 0; i < count; i++) {
		if (found[i].err == 0) {
			snprintf(what, RAID_WHY_BYTES, "a member of md array %s \"%s\"",
				 sb_uuid_text(found[i].sb.set_uuid, uuid),
				 ctl_clean_text(found[i].sb.set_name, name, sizeof name));
			return 2;
		}
		if (found[i].err != -EIO) {
			snprintf(what, RAID_WHY_BYTES, "a damaged md superblock of version %s",
				 sb_version_name(found[i].loc.version));
			need = 1;
		}
	}
	if (!need && device_signature(&m->dev, what)) {
		need = 1;
	}
	return need;
}

/* All members are looked at before the first refusal, so that the user sees everything at once. */
static int check_members(struct create_args *a)
{
	const struct create_member *worst = NULL;
	uint32_t need = 0, others = 0;

	for (uint32_t i = 0; i < a->members; i++) {
		struct create_member *m = &a->member[i];
		char what[RAID_WHY_BYTES];
		uint32_t n;

		if (!m->path) {
			continue;
		}
		n = look_at(m, what);
		if (n) {
			snprintf(m->old, sizeof m->old, "%.120s", what);
		}
		others += n > a->force;
		if (n > a->force && n > need) {
			worst = m;
			need = n;
		}
	}
	if (!worst) {
		return CTL_OK;
	}
	if (others > 1) {
		return ctl_refused("%s (and %u more) carries %s; to lose that say --force%s",
				   worst->path, others - 1, worst->old,
				   need > 1 ? " twice; to run that array use assemble" : "");
	}
	return ctl_refused("%s carries %s; to lose that say --force%s", worst->path, worst->old,
			   need > 1 ? " twice; to run that array use assemble" : "");
}

/* ---- planning -------------------------------------------------------------------------------- */

static bool all_zero(const uint8_t *p, size_t n)
{
	while (n && !*p) {
		p++;
		n--;
	}
	return n == 0;
}

/* Files that we just made read as zeroes: their copies and parity are right as they are. */
static bool all_made(const struct create_args *a)
{
	bool made = true;

	for (uint32_t i = 0; i < a->params.slots; i++) {
		made &= !a->member[i].path || a->member[i].made;
	}
	return made;
}

static int plan(struct create_args *a)
{
	struct create_params *p = &a->params;
	char why[RAID_WHY_BYTES] = "";

	p->ctime_s = (uint64_t)time(NULL);
	if (all_zero(p->set_uuid, sizeof p->set_uuid) &&
	    random_bytes(p->set_uuid, sizeof p->set_uuid) < 0) {
		return ctl_refused("the system has no random numbers");
	}
	for (uint32_t i = 0; i < a->members; i++) {
		const struct raid_member_props *props = &a->member[i].dev.props;

		if (!a->member[i].path) {
			continue;
		}
		p->dev[i].dev_sectors = props->size_bytes / RAID_SECTOR_BYTES;
		p->dev[i].logical_block = props->logical_block;
		if (random_bytes(p->dev[i].device_uuid, sizeof p->dev[i].device_uuid) < 0) {
			return ctl_refused("the system has no random numbers");
		}
	}
	p->zeroed = a->write_zeroes || all_made(a);
	if (create_plan(p, &a->plan, why) < 0) {
		return ctl_refused("%s", why);
	}
	return CTL_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Give every block of the files a place now, so that later writes cannot run out of space. */
static int allocate(struct create_args *a)
{
	for (uint32_t i = 0; i < a->members; i++) {
		struct create_member *m = &a->member[i];

		if (!m->path || !m->regular || a->sparse) {
			continue;
		}
		if (fallocate(m->dev.fd, 0, 0, (off_t)m->dev.props.size_bytes) == 0) {
			continue;
		}
		if (errno == EOPNOTSUPP) {
			fprintf(stderr,
				"nbd-raidctl: %s stays as it is: its file system cannot allocate\n",
				m->path);
			continue;
		}
		return ctl_refused("cannot allocate %s: %s; --sparse does without", m->path,
				   strerror(errno));
	}
	return CTL_OK;
}

static int erase_old(const struct member_dev *dev)
{
	struct ctl_found found[SB_LOCATIONS_MAX];
	uint32_t count = ctl_find_superblocks(dev, found);
	int rc = 0;

	for (uint32_t i = 0; i < count && rc == 0; i++) {
		if (found[i].err != -EIO) {
			rc = ctl_wipe(dev, found[i].loc);
		}
	}
	return rc == 0 && count ? device_flush(dev) : rc;
}

static uint64_t bitmap_maddr(const struct sb *sb)
{
	return (sb->super_offset + (uint64_t)(int64_t)sb->bitmap_offset) * RAID_SECTOR_BYTES;
}

/* Before the superblock that says that it is there. */
static int write_bitmap(const struct member_dev *dev, const struct create_plan *plan,
			const struct sb *sb)
{
	uint64_t len = (uint64_t)plan->bitmap_sectors * RAID_SECTOR_BYTES;
	uint8_t page[BM_PAGE_BYTES];
	int rc = 0;

	for (uint64_t at = 0; at < len && rc == 0; at += sizeof page) {
		create_bitmap_bytes(plan, at, page, sizeof page);
		rc = device_write(dev, bitmap_maddr(sb) + at, page, sizeof page);
	}
	return rc == 0 && len ? device_flush(dev) : rc;
}

static int write_new(const struct member_dev *dev, const struct create_plan *plan,
		     const struct sb *sb)
{
	uint8_t buf[SB_BYTES_MAX];
	uint32_t len = sb_encode(sb, dev->props.logical_block, buf);
	int rc = write_bitmap(dev, plan, sb);

	if (rc == 0) {
		rc = device_write(dev, sb->super_offset * RAID_SECTOR_BYTES, buf, len);
	}
	return rc == 0 ? device_flush(dev) : rc;
}

static int bitmap_back(const struct member_dev *dev, const struct create_plan *plan,
		       const struct sb *sb)
{
	uint8_t want[BM_HEADER_BYTES], got[BM_HEADER_BYTES];
	int rc;

	if (!plan->bitmap_sectors) {
		return 0;
	}
	create_bitmap_bytes(plan, 0, want, sizeof want);
	rc = device_read(dev, bitmap_maddr(sb), got, sizeof got);
	return rc == 0 && memcmp(want, got, sizeof got) != 0 ? -EIO : rc;
}

static int read_back(const struct member_dev *dev, const struct create_plan *plan,
		     const struct sb *sb)
{
	struct ctl_found found[SB_LOCATIONS_MAX];
	uint32_t count = ctl_find_superblocks(dev, found);
	int rc = bitmap_back(dev, plan, sb);

	return rc ? rc
	       : count == 1 && found[0].err == 0 && found[0].sb.version == sb->version &&
			       memcmp(found[0].sb.device_uuid, sb->device_uuid, 16) == 0
		       ? 0
		       : -EIO;
}

/* Erase, write and verify on all members, or leave no trace of the new array. */
static int write_all(struct create_args *a)
{
	const char *what = "cannot erase the old superblock";
	uint32_t at = 0, written = 0;
	int rc = 0;

	for (uint32_t i = 0; i < a->members && rc == 0; i++) {
		at = i;
		rc = a->member[i].path ? erase_old(&a->member[i].dev) : 0;
	}
	for (uint32_t i = 0; i < a->members && rc == 0; i++) {
		what = "cannot write the superblock";
		at = i;
		written = i + 1;
		rc = a->member[i].path ? write_new(&a->member[i].dev, &a->plan, &a->plan.sb[i]) : 0;
	}
	for (uint32_t i = 0; i < a->members && rc == 0; i++) {
		what = "the superblock does not read back as it was written";
		at = i;
		rc = a->member[i].path ? read_back(&a->member[i].dev, &a->plan, &a->plan.sb[i]) : 0;
	}
	if (rc == 0) {
		return CTL_OK;
	}
	for (uint32_t i = 0; i < written; i++) {
		if (a->member[i].path) {
			erase_old(&a->member[i].dev);
		}
	}
	return ctl_refused("%s: %s: %s", a->member[at].path, what, strerror(-rc));
}

/* ---------------------------------------------------------------------------------------------- */

static int create(struct create_args *a)
{
	int rc;

	if (a->members == 1 && !a->force) {
		return ctl_refused("an array of one member is unusual; --force makes it");
	}
	rc = open_members(a);
	if (rc == CTL_OK) {
		rc = check_members(a);
	}
	if (rc == CTL_OK) {
		rc = plan(a);
	}
	if (rc != CTL_OK) {
		return rc;
	}
	if (!a->json) {
		create_print_plan(a);
		fflush(stdout);
	}
	rc = allocate(a);
	if (rc == CTL_OK && a->claim) {
		/* before there is anything that udev could give to mdadm */
		rc = ctl_claim_uuid(a->claim, a->params.set_uuid, !a->json);
	}
	if (rc == CTL_OK && a->write_zeroes) {
		rc = create_zero_data(a);
	}
	if (rc == CTL_OK) {
		rc = write_all(a);
	}
	if (rc != CTL_OK) {
		return rc;
	}
	if (a->json) {
		ctl_print_json(create_plan_json(a));
	} else {
		printf("created%s:\n", a->claim ? ", and claimed"
						: "; for mdadm.conf (`nbd-raidctl claim` or "
						  "create --claim writes it)");
		ctl_print_array_line(a->params.set_uuid);
	}
	return CTL_OK;
}

int ctl_create(int argc, char **argv)
{
	struct create_args *a = calloc(1, sizeof *a);
	int rc = CTL_REFUSED;

	if (!a) {
		return ctl_refused("out of memory");
	}
	rc = create_parse(argc, argv, a);
	if (rc == CTL_OK) {
		rc = create(a);
		for (uint32_t i = 0; i < a->members; i++) {
			if (rc != CTL_OK && a->member[i].made) {
				unlink(a->member[i].path);
			}
			device_close(&a->member[i].dev);
		}
	}
	free(a);
	return rc;
}
