/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What drives the fuzz targets: each defines LLVMFuzzerTestOneInput(), as for libFuzzer, and may
 * define fuzz_seed() to give valid inputs to start from. gcc has no libFuzzer, so this is a small
 * one: inputs that reach a new edge are kept and mutated further. Edges are seen in FUZZ=1 builds
 * (-fsanitize-coverage=trace-pc); in others it mutates the seeds only.
 *
 *   fuzz_X [-t SECONDS] [-s SEED]     fuzz; the seed is printed
 *   fuzz_X FILE...                    run these inputs only
 *
 * The input under test lies in a mapped file, PROGRAM.PID.input: it is there after a crash,
 * whatever the crash was, and removed after a run without one. TURN inputs that take more than
 * HANG_S seconds together are ended by SIGALRM.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) size_t fuzz_seed(unsigned i, uint8_t *buf, size_t size);
void __sanitizer_cov_trace_pc(void);

enum {
	INPUT_MAX = 64 * 1024,
	CORPUS_MAX = 4096,
	EDGES = 1 << 16,
	HANG_S = 10,
	TURN = 256, /* executions between two looks at the clock */
};

struct input {
	uint8_t *data;
	size_t size;
};

/* The file with the input under test; run_file() knows it by its size. */
struct shown {
	uint64_t size;
	uint8_t data[INPUT_MAX];
};

static struct input corpus[CORPUS_MAX];
static size_t corpus_count;
static uint64_t rng_state;
static bool edge_seen[EDGES];
static bool edge_new; /* the run under way has reached an edge for the first time */
static uintptr_t edge_last;

/* Called by instrumented code at every basic block; this file itself is not instrumented. */
void __sanitizer_cov_trace_pc(void)
{
	uintptr_t pc = (uintptr_t)__builtin_return_address(0);
	size_t edge = (pc ^ (edge_last << 1) ^ (pc >> 16)) % EDGES;

	edge_last = pc;
	if (!edge_seen[edge]) {
		edge_seen[edge] = true;
		edge_new = true;
	}
}

/* splitmix64 */
static uint64_t rng(void)
{
	uint64_t z = rng_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static size_t below(size_t n)
{
	return n ? rng() % n : 0;
}

/* Mostly small numbers, now and then up to n. */
static size_t some(size_t n)
{
	return below(1 + below(n < 16 || below(8) == 0 ? n : 16));
}

static void corpus_add(const uint8_t *data, size_t size)
{
	struct input *in = &corpus[corpus_count < CORPUS_MAX ? corpus_count++ : below(CORPUS_MAX)];
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy) {
		perror("fuzz");
		exit(2);
	}
	memcpy(copy, data, size);
	free(in->data);
	in->data = copy;
	in->size = size;
}

static uint64_t interesting(void)
{
	/* clang-format off */
	static const uint64_t values[] = {
		0, 1, 2, 511, 512, 4095, 4096, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff,
		0x7fffffff, 0x80000000, 0xffffffff,
		UINT64_C(0x7fffffffffffffff), UINT64_C(0x8000000000000000), UINT64_MAX,
	};
	/* clang-format on */
	uint64_t v = values[below(sizeof(values) / sizeof(values[0]))];

	return below(4) ? v : v + below(17) - 8;
}

/* Overwrite 1, 2, 4 or 8 bytes with a number in either byte order. */
static void put_number(uint8_t *data, size_t size)
{
	size_t width = (size_t)1 << below(4), at;
	uint64_t v = interesting();
	bool big = below(2);

	if (size < width) {
		return;
	}
	at = below(size - width + 1);
	for (size_t i = 0; i < width; i++) {
		data[at + i] = (uint8_t)(v >> 8 * (big ? width - 1 - i : i));
	}
}

/* One random change; returns the new size. */
static size_t mutate(uint8_t *data, size_t size)
{
	const struct input *other = &corpus[below(corpus_count)];
	size_t at = below(size), n = some(size - at + 1), to = below(size);

	switch (below(8)) {
	case 0: /* flip a bit */
		if (size) {
			data[at] ^= (uint8_t)(1u << below(8));
		}
		return size;
	case 1:
		if (size) {
			data[at] = (uint8_t)rng();
		}
		return size;
	case 2:
		put_number(data, size);
		return size;
	case 3: /* put random bytes in */
		n = some(INPUT_MAX - size);
		memmove(data + at + n, data + at, size - at);
		for (size_t i = 0; i < n; i++) {
			data[at + i] = (uint8_t)rng();
		}
		return size + n;
	case 4: /* take n bytes out */
		memmove(data + at, data + at + n, size - at - n);
		return size - n;
	case 5: /* copy n bytes to elsewhere in the input */
		n = n < size - to ? n : size - to;
		memmove(data + to, data + at, n);
		return size;
	case 6: /* put a piece of another input in */
		at = below(size + 1);
		to = below(other->size);
		n = some(other->size - to + 1);
		n = n < INPUT_MAX - size ? n : INPUT_MAX - size;
		memmove(data + at + n, data + at, size - at);
		memcpy(data + at, other->data + to, n);
		return size + n;
	default: /* cut the end off, or let it go on with the end of another input */
		size = below(4) ? size : at;
		to = below(other->size + 1);
		n = other->size - to;
		n = n < INPUT_MAX - size ? n : INPUT_MAX - size;
		memcpy(data + size, other->data + to, n);
		return size + n;
	}
}

/* The input is handed over in a block of exactly its size, so that ASan sees a read past it. */
static void run_one(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);

	if (!exact) {
		perror("fuzz");
		exit(2);
	}
	memcpy(exact, data, size);
	edge_last = 0;
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
}

static int run_file(const char *path)
{
	static struct shown shown;
	const uint8_t *data = shown.data;
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f) {
		fprintf(stderr, "fuzz: %s: %s\n", path, strerror(errno));
		return 1;
	}
	n = fread(&shown, 1, sizeof(shown), f);
	fclose(f);
	if (n == sizeof(shown) && shown.size <= INPUT_MAX) {
		n = shown.size;
	} else {
		data = (const uint8_t *)&shown;
	}
	run_one(data, n);
	printf("%s: %zu bytes, no failure\n", path, n);
	return 0;
}

static void load_seeds(uint8_t *buf)
{
	for (unsigned i = 0; fuzz_seed; i++) {
		size_t n = fuzz_seed(i, buf, INPUT_MAX);

		if (n == 0) {
			break;
		}
		run_one(buf, n);
		corpus_add(buf, n);
	}
	if (corpus_count == 0) {
		corpus_add((const uint8_t *)"", 0);
	}
}

static struct shown *map_input(const char *path)
{
	struct shown *map = MAP_FAILED;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd >= 0 && ftruncate(fd, sizeof(*map)) == 0) {
		map = mmap(NULL, sizeof(*map), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	}
	if (map == MAP_FAILED) {
		fprintf(stderr, "fuzz: %s: %s\n", path, strerror(errno));
		exit(2);
	}
	close(fd);
	return map;
}

static void fuzz(const char *path, unsigned seconds)
{
	static uint8_t buf[INPUT_MAX];
	time_t end;
	uint64_t runs = 0;
	struct shown *shown = map_input(path);

	load_seeds(buf);
	end = time(NULL) + (time_t)seconds;
	do {
		alarm(HANG_S);
		for (unsigned i = 0; i < TURN; i++, runs++) {
			const struct input *in = &corpus[below(corpus_count)];
			size_t size = in->size;

			memcpy(buf, in->data, size);
			for (size_t changes = 1 + some(8); changes > 0; changes--) {
				size = mutate(buf, size);
			}
			memcpy(shown->data, buf, size);
			shown->size = size;
			edge_new = false;
			run_one(buf, size);
			if (edge_new) {
				corpus_add(buf, size);
			}
		}
	} while (time(NULL) < end);
	printf("%llu runs, %zu inputs kept\n", (unsigned long long)runs, corpus_count);
	munmap(shown, sizeof(*shown));
	unlink(path);
}

int main(int argc, char **argv)
{
	unsigned seconds = 10;
	char path[4096];
	int opt, failed = 0;

	rng_state = (uint64_t)time(NULL) ^ (uint64_t)getpid() << 32;
	while ((opt = getopt(argc, argv, "t:s:")) != -1) {
		if (opt == 't') {
			seconds = (unsigned)strtoul(optarg, NULL, 10);
		} else if (opt == 's') {
			rng_state = strtoull(optarg, NULL, 0);
		} else {
			fprintf(stderr, "usage: %s [-t SECONDS] [-s SEED] | FILE...\n", argv[0]);
			return 2;
		}
	}
	if (optind < argc) {
		for (; optind < argc; optind++) {
			failed |= run_file(argv[optind]);
		}
		return failed;
	}
	snprintf(path, sizeof(path), "%s.%d.input", argv[0], (int)getpid());
	printf("seed %llu; the input under test is in %s\n", (unsigned long long)rng_state, path);
	fflush(stdout);
	fuzz(path, seconds);
	return 0;
}
