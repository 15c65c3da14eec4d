/*
 * workload: holds memory of a known heat at a known place, and says where it is now.
 *
 * Tests and benchmarks talk to it in lines on stdin and stdout. It is static and needs neither
 * libnuma nor threads: gcc -O2 -static -o workload workload.c -lm
 *
 *   alloc NAME NODE BYTES [bind] [thp] [timed] [file=PATH]
 *                          make a set of pages, and fault them in at once. They go to NODE if it
 *                          has room; "-" means any node. With bind they go to no other node: if
 *                          NODE has too little room, this wakes kswapd, and at worst the OOM
 *                          killer. With file= they are page cache of PATH, which is created and
 *                          unlinked again. With timed `latency` prints how long the faults took.
 *   hot NAME [RATE [OFFSET LENGTH]] [uniform|zipf|scattered[=THETA]] [seed=N] [every=N]
 *       [drift=RATE]
 *                          touch all pages of the set, or of a part of it, RATE times a second;
 *                          0, the default, is as often as one processor can. Pages are touched in
 *                          order, or drawn at random: all equally likely (uniform), or by rank
 *                          (zipf, 0.99). With zipf neighbours in a MiB are neighbours in rank, and
 *                          the MiBs are shuffled. With scattered the set is a store of values of
 *                          512 bytes, drawn by rank (zipf, 0.99 or THETA), and the ranks are
 *                          shuffled over all values: the heat of a page says nothing about that of
 *                          its neighbours. Another seed= gives another shuffle.
 *                          With every= only each N-th page is touched. With drift= the part moves
 *                          through the set by RATE pages a second.
 *   cold NAME              stop touching the set.
 *   passes NAME            how often all its hot pages were touched since the last `hot`.
 *   latency NAME           "COUNT P50 P99 MAX" in ns, of requests (64 touched pages each) or of
 *                          timed faults, since the last `latency` of this set.
 *   hits NAME STRIDE       pages per node, for each STRIDE-th of the next touches.
 *   served NAME            how many of a million touches of a scattered set each node serves, by
 *                          where its pages are now.
 *   best NAME PAGES        how many of a million touches of a scattered set go to the PAGES pages
 *                          that are touched most.
 *   move NAME NODE RATE [OFFSET LENGTH]
 *                          from now on move these pages to NODE, RATE bytes a second, then stop.
 *   track NODE             from now on watch each 16th page of all sets, and count its moves to
 *                          NODE and away from it.
 *   moves NODE             "TO FROM OFTEN": the moves of these pages so far, times 16, and how many
 *                          pages moved three times or more.
 *   where NAME [OFFSET LENGTH [STRIDE]]
 *                          pages per node, of all pages or of each STRIDE-th.
 *   check NAME             check that each page still holds what was written there.
 *   free NAME              give the pages back.
 *   flush MICROSECONDS     how often translations are dropped (see below); 0 means never.
 *   quit                   or the end of stdin.
 *
 * Each command is answered by one line, "ok ..." or "error ...". The first line is "ready".
 * Offsets, lengths and BYTES are in bytes. Counts are in pages of 4 KiB.
 *
 * Why flush: DAMON makes the guest's kernel clear the accessed bit without a flush. Under software
 * emulation (TCG) the translation then stays in QEMU's own TLB. The bit is never set again, and the
 * hottest page looks idle. If the protection of more than 33 pages changes, the kernel flushes all
 * translations, not single ones. On hardware this is not needed: flush 0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL
#define HUGE (2UL << 20)
#define SETS_MAX 64
#define NODES_MAX 64
#define WORDS_MAX 12
#define NAME_BYTES 32
#define LINE_BYTES 1024

/* A turn of the loop takes this long: it touches the pages that are due, and reads a command. */
#define TURN_NS 2000000L
/* The number of pages that are touched between two looks at the clock. */
#define BATCH_PAGES 256UL
#define FLUSH_PAGES 64UL
#define FLUSH_US_DEFAULT 2000L
#define WHERE_BATCH 1024UL

#define REQUEST_PAGES 64UL
/* A bucket per eighth of a power of two of nanoseconds. */
#define LATENCY_BUCKETS (62 * 8)

#define ZIPF_SKEW 0.99
#define ZIPF_STEPS 65536UL
#define RANK_PAGES ((1UL << 20) / PAGE)
#define VALUE 512UL
#define PAGE_VALUES (PAGE / VALUE)
/* With this many rounds each bit of a rank affects all others. */
#define SHUFFLE_ROUNDS 4
#define MILLION 1000000.0

#define TRACK_STRIDE 16UL
/* Tracked pages that are looked at in a turn: those of 1 GiB in half a second. */
#define TRACK_BATCH 64UL
#define UNSEEN 255
#define OFTEN 3

#define MOVE_BATCH 256UL
/* How often a page is tried that cannot be moved. */
#define MOVE_ROUNDS 20

/* From linux/mempolicy.h, which a machine may lack. */
enum { POLICY_DEFAULT = 0, POLICY_PREFERRED = 1, POLICY_BIND = 2 };

enum order { IN_ORDER, UNIFORM, ZIPF, SCATTERED };

/* Pages that are being moved to a node. */
struct transfer {
	size_t first, pages, cursor, left;
	unsigned long node, rate_bytes;
	double due; /* pages that may be moved by now */
	int rounds; /* 0: nothing to do */
};

struct set {
	char name[NAME_BYTES];
	char path[256]; /* of the file that is mapped, or empty */
	unsigned char *mapped; /* what munmap() gets */
	size_t mapped_bytes;
	unsigned char *start;
	size_t pages;
	bool hot;
	double rate_hz; /* 0: as often as possible */
	size_t hot_first, hot_pages, every; /* hot_pages are those that are touched */
	double drift_hz, drifted;
	enum order order;
	uint32_t *ranks; /* with zipf: the rank at each step of the distribution */
	float *weights; /* with scattered: the share of the touches for each page of the part */
	unsigned long seed;
	size_t cursor; /* in the hot part */
	double due; /* pages that should have been touched by now */
	uint64_t touched;
	uint32_t latency[LATENCY_BUCKETS];
	long latency_max_ns;
	struct transfer transfer;
	unsigned char *seen, *changes; /* of each tracked page: its node, and its moves */
};

/* What is kept in the first bytes of each page. */
struct mark {
	uint64_t tag;
	volatile uint64_t touches;
};

static struct set sets[SETS_MAX];
static size_t nr_sets;
static unsigned char *flush_area;
static long flush_us = FLUSH_US_DEFAULT;
static uint64_t dice = 0x2545f4914f6cdd1dUL;

static bool tracking;
static int tracked_node;
static size_t tracked_set, tracked_at, moved_to, moved_from;

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void reply(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

static struct set *find(const char *name)
{
	for (size_t i = 0; i < nr_sets; i++)
		if (!strcmp(sets[i].name, name))
			return &sets[i];
	reply("error no set %s", name);
	return NULL;
}

static bool number(const char *word, unsigned long *value)
{
	char *end;

	errno = 0;
	*value = strtoul(word, &end, 10);
	if (errno || end == word || *end || *word == '-') {
		reply("error not a number: %s", word);
		return false;
	}
	return true;
}

/* Parse OFFSET LENGTH in words[0..1] to a range of pages; without words it is the whole set. */
static bool part(const struct set *set, int nr_words, char **words, size_t *first, size_t *pages)
{
	unsigned long offset = 0, length = set->pages * PAGE;

	if (nr_words && (nr_words < 2 || !number(words[0], &offset) || !number(words[1], &length)))
		return false;
	if (offset % PAGE || length % PAGE || !length || offset > set->pages * PAGE ||
	    length > set->pages * PAGE - offset) {
		reply("error not a part of %s, in whole pages: %lu +%lu", set->name, offset, length);
		return false;
	}
	*first = offset / PAGE;
	*pages = length / PAGE;
	return true;
}

static uint64_t tag(const struct set *set, size_t page)
{
	return (uint64_t)(uintptr_t)set->start ^ (page * 0x9e3779b97f4a7c15UL);
}

static struct mark *mark(const struct set *set, size_t page)
{
	return (struct mark *)(set->start + page * PAGE);
}

static uint64_t roll(void)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return dice;
}

static void record(struct set *set, long took_ns)
{
	unsigned long value = took_ns < 8 ? 8 : (unsigned long)took_ns;
	int top = 63 - __builtin_clzl(value);

	set->latency[(top - 3) * 8 + (int)((value >> (top - 3)) & 7)]++;
	if (took_ns > set->latency_max_ns)
		set->latency_max_ns = took_ns;
}

/* Return the latency that this share of all stays below, as the middle of its bucket. */
static unsigned long quantile(const struct set *set, uint64_t count, double share)
{
	uint64_t below = 0;

	for (unsigned long bucket = 0; bucket < LATENCY_BUCKETS; bucket++) {
		below += set->latency[bucket];
		if (below && (double)below >= share * (double)count)
			return (2 * (8 + bucket % 8) + 1) << (bucket / 8) >> 1;
	}
	return 0;
}

static void do_latency(struct set *set)
{
	uint64_t count = 0;

	for (size_t bucket = 0; bucket < LATENCY_BUCKETS; bucket++)
		count += set->latency[bucket];
	reply("ok %lu %lu %lu %ld", count, quantile(set, count, 0.5), quantile(set, count, 0.99),
	      set->latency_max_ns);
	memset(set->latency, 0, sizeof(set->latency));
	set->latency_max_ns = 0;
}

/* Return the page of the set that is at a position of its hot part. */
static size_t hot_page(const struct set *set, size_t position)
{
	return (set->hot_first + (size_t)set->drifted + position * set->every) % set->pages;
}

/* Return where the value of a rank is. This shuffles all numbers below `values` without a table. */
static size_t shuffled(uint64_t seed, size_t rank, size_t values)
{
	unsigned int half = 1;

	while (values > 1UL << 2 * half)
		half++;
	/* The rounds shuffle the numbers below a power of four. A number beyond the end goes on. */
	do {
		size_t mask = (1UL << half) - 1, left = rank >> half, right = rank & mask;

		for (uint64_t round = 1; round <= SHUFFLE_ROUNDS; round++) {
			uint64_t mixed = (right + seed + round) * 0x9e3779b97f4a7c15UL;
			size_t swap = right;

			mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9UL;
			right = left ^ (mixed >> 32 & mask);
			left = swap;
		}
		rank = left << half | right;
	} while (rank >= values);
	return rank;
}

/* Draw a rank by the distribution. */
static size_t next_rank(const struct set *set)
{
	size_t step = roll() % ZIPF_STEPS, low = set->ranks[step], high = set->ranks[step + 1];

	return low + (high > low ? roll() % (high - low) : 0);
}

/* Draw the value of a scattered set that is touched next. */
static size_t next_value(const struct set *set)
{
	return shuffled(set->seed, next_rank(set), set->hot_pages * PAGE_VALUES);
}

/* Return the position in the hot part that is touched next. */
static size_t next_position(struct set *set)
{
	size_t rank, blocks;

	if (set->order == SCATTERED)
		return next_value(set) / PAGE_VALUES;
	if (set->order == UNIFORM)
		return roll() % set->hot_pages;
	if (set->order == IN_ORDER) {
		if (++set->cursor >= set->hot_pages)
			set->cursor = 0;
		return set->cursor;
	}
	rank = next_rank(set);
	/* 7919 is a prime larger than the number of blocks, so each block has a place of its own. */
	blocks = set->hot_pages / RANK_PAGES;
	if (rank >= blocks * RANK_PAGES)
		return rank;
	return rank / RANK_PAGES * 7919 % blocks * RANK_PAGES + rank % RANK_PAGES;
}

/* Compute the ranks at equal steps of the cumulated distribution; with scattered also weights. */
static bool rank_all(struct set *set, double skew)
{
	size_t per_page = set->order == SCATTERED ? PAGE_VALUES : 1;
	size_t count = set->hot_pages * per_page, step = 0;
	double sum = 0, total = 0, *shares = malloc(count * sizeof(*shares));

	free(set->ranks);
	free(set->weights);
	set->ranks = malloc((ZIPF_STEPS + 1) * sizeof(*set->ranks));
	set->weights = set->order == SCATTERED ? calloc(set->hot_pages, sizeof(float)) : NULL;
	if (!shares || !set->ranks || (set->order == SCATTERED && !set->weights)) {
		free(shares);
		reply("error no memory");
		return false;
	}
	for (size_t rank = 0; rank < count; rank++)
		total += shares[rank] = pow((double)rank + 1, -skew);
	for (size_t rank = 0; rank < count; rank++) {
		for (; step < ZIPF_STEPS && sum * ZIPF_STEPS >= (double)step * total; step++)
			set->ranks[step] = (uint32_t)rank;
		sum += shares[rank];
		if (set->weights)
			set->weights[shuffled(set->seed, rank, count) / PAGE_VALUES] +=
				(float)(shares[rank] / total);
	}
	for (; step <= ZIPF_STEPS; step++)
		set->ranks[step] = (uint32_t)count;
	free(shares);
	return true;
}

/* Find the node of each page; it is negative for a page that is nowhere. False: it has answered. */
static bool find_nodes(void **asked, size_t count, int *found)
{
	if (!syscall(SYS_move_pages, 0, count, asked, NULL, found, 0))
		return true;
	reply("error move_pages: %s", strerror(errno));
	return false;
}

/* Count the pages per node, and those that are nowhere. False: it has answered with an error. */
static bool locate(const struct set *set, size_t first, size_t pages, size_t stride,
		   size_t nodes[NODES_MAX], size_t *absent)
{
	static void *asked[WHERE_BATCH];
	static int found[WHERE_BATCH];

	memset(nodes, 0, NODES_MAX * sizeof(*nodes));
	*absent = 0;
	for (size_t at = first; at < first + pages;) {
		size_t count = 0;

		for (; count < WHERE_BATCH && at < first + pages; at += stride)
			asked[count++] = set->start + at * PAGE;
		if (!find_nodes(asked, count, found))
			return false;
		for (size_t i = 0; i < count; i++) {
			if (found[i] >= 0 && found[i] < NODES_MAX)
				nodes[found[i]]++;
			else
				++*absent;
		}
	}
	return true;
}

static void say_nodes(const size_t nodes[NODES_MAX], size_t absent)
{
	char line[LINE_BYTES] = "";
	size_t at = 0;

	for (size_t node = 0; node < NODES_MAX; node++)
		if (nodes[node])
			at += snprintf(line + at, sizeof(line) - at, " %zu:%zu", node, nodes[node]);
	if (absent)
		snprintf(line + at, sizeof(line) - at, " absent:%zu", absent);
	reply("ok%s", line);
}

static void say_where(const struct set *set, size_t first, size_t pages, size_t stride)
{
	size_t nodes[NODES_MAX], absent;

	if (locate(set, first, pages, stride, nodes, &absent))
		say_nodes(nodes, absent);
}

static void do_hits(struct set *set, const char *word)
{
	static void *asked[WHERE_BATCH];
	static int found[WHERE_BATCH];
	bool drawn = set->order == ZIPF || set->order == SCATTERED;
	size_t nodes[NODES_MAX] = { 0 }, absent = 0;
	unsigned long stride;

	if (!number(word, &stride))
		return;
	for (size_t at = 0; at < set->hot_pages;) {
		size_t count = 0;

		for (; count < WHERE_BATCH && at < set->hot_pages; at += stride ? stride : 1) {
			size_t position = drawn ? next_position(set) : at;

			asked[count++] = set->start + hot_page(set, position) * PAGE;
		}
		if (!find_nodes(asked, count, found))
			return;
		for (size_t i = 0; i < count; i++) {
			if (found[i] >= 0 && found[i] < (int)NODES_MAX)
				nodes[found[i]]++;
			else
				absent++;
		}
	}
	say_nodes(nodes, absent);
}

static void do_served(const struct set *set)
{
	static void *asked[WHERE_BATCH];
	static int found[WHERE_BATCH];
	double shares[NODES_MAX] = { 0 }, absent = 0;
	size_t nodes[NODES_MAX];

	for (size_t at = 0; at < set->hot_pages;) {
		size_t first = at, count = 0;

		for (; count < WHERE_BATCH && at < set->hot_pages; at++)
			asked[count++] = set->start + hot_page(set, at) * PAGE;
		if (!find_nodes(asked, count, found))
			return;
		for (size_t i = 0; i < count; i++) {
			if (found[i] >= 0 && found[i] < (int)NODES_MAX)
				shares[found[i]] += set->weights[first + i];
			else
				absent += set->weights[first + i];
		}
	}
	for (size_t node = 0; node < NODES_MAX; node++)
		nodes[node] = (size_t)lround(shares[node] * MILLION);
	say_nodes(nodes, (size_t)lround(absent * MILLION));
}

static int larger_first(const void *a, const void *b)
{
	float left = *(const float *)a, right = *(const float *)b;

	return (left < right) - (left > right);
}

static void do_best(const struct set *set, const char *word)
{
	float *sorted = malloc(set->hot_pages * sizeof(*sorted));
	unsigned long pages;
	double sum = 0;

	if (!number(word, &pages)) {
		free(sorted);
		return;
	}
	if (!sorted) {
		reply("error no memory");
		return;
	}
	memcpy(sorted, set->weights, set->hot_pages * sizeof(*sorted));
	qsort(sorted, set->hot_pages, sizeof(*sorted), larger_first);
	for (size_t at = 0; at < pages && at < set->hot_pages; at++)
		sum += sorted[at];
	free(sorted);
	reply("ok %lu", lround(sum * MILLION));
}

static bool policy(int mode, unsigned long node)
{
	unsigned long mask = 1UL << node;

	if (syscall(SYS_set_mempolicy, mode, mode == POLICY_DEFAULT ? NULL : &mask,
		    mode == POLICY_DEFAULT ? 0UL : NODES_MAX + 1UL)) {
		reply("error set_mempolicy: %s", strerror(errno));
		return false;
	}
	return true;
}

static bool map(struct set *set, bool thp)
{
	int file = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;

	set->mapped_bytes = set->pages * PAGE + (thp ? HUGE : 0);
	if (*set->path) {
		file = open(set->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		flags = MAP_SHARED;
		if (file < 0 || ftruncate(file, (off_t)set->mapped_bytes)) {
			reply("error %s: %s", set->path, strerror(errno));
			if (file >= 0) {
				close(file);
				unlink(set->path);
			}
			return false;
		}
	}
	set->mapped = mmap(NULL, set->mapped_bytes, PROT_READ | PROT_WRITE, flags, file, 0);
	if (file >= 0)
		close(file);
	if (set->mapped == MAP_FAILED) {
		reply("error mmap: %s", strerror(errno));
		if (*set->path)
			unlink(set->path);
		return false;
	}
	set->start = set->mapped;
	if (thp)
		set->start = (unsigned char *)(((uintptr_t)set->mapped + HUGE - 1) & ~(HUGE - 1));
	/* A kernel without huge pages refuses this, which does no harm. */
	madvise(set->mapped, set->mapped_bytes, thp ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return true;
}

static void unmap(struct set *set)
{
	munmap(set->mapped, set->mapped_bytes);
	free(set->ranks);
	free(set->weights);
	free(set->seen);
	free(set->changes);
	if (*set->path)
		unlink(set->path);
}

static void do_alloc(int nr_words, char **words)
{
	struct set *set = &sets[nr_sets];
	unsigned long node = 0, bytes;
	bool anywhere = nr_words > 2 && !strcmp(words[2], "-");
	bool bind = false, thp = false, timed = false;

	if (nr_words < 4 || nr_sets == SETS_MAX || strlen(words[1]) >= NAME_BYTES) {
		reply("error alloc NAME NODE BYTES, at most %d sets", SETS_MAX);
		return;
	}
	for (size_t i = 0; i < nr_sets; i++) {
		if (!strcmp(sets[i].name, words[1])) {
			reply("error there is a set %s", words[1]);
			return;
		}
	}
	if ((!anywhere && !number(words[2], &node)) || !number(words[3], &bytes))
		return;
	memset(set, 0, sizeof(*set));
	strcpy(set->name, words[1]);
	for (int i = 4; i < nr_words; i++) {
		bind |= !strcmp(words[i], "bind");
		thp |= !strcmp(words[i], "thp");
		timed |= !strcmp(words[i], "timed");
		if (!strncmp(words[i], "file=", 5))
			snprintf(set->path, sizeof(set->path), "%s", words[i] + 5);
	}
	set->pages = (bytes + PAGE - 1) / PAGE;
	if (!set->pages || node >= NODES_MAX) {
		reply("error nothing to allocate, or no node %lu", node);
		return;
	}
	if (!anywhere && !policy(bind ? POLICY_BIND : POLICY_PREFERRED, node))
		return;
	if (map(set, thp)) {
		for (size_t page = 0; page < set->pages; page++) {
			long began_ns = timed ? now_ns() : 0;

			mark(set, page)->tag = tag(set, page);
			if (timed)
				record(set, now_ns() - began_ns);
		}
		nr_sets++;
		say_where(set, 0, set->pages, 1);
	}
	if (!anywhere)
		policy(POLICY_DEFAULT, 0);
}

static bool hot_options(struct set *set, int nr_words, char **words)
{
	double skew = ZIPF_SKEW;
	char *end = NULL;

	set->order = IN_ORDER;
	set->every = 1;
	set->seed = 0;
	set->drift_hz = set->drifted = 0;
	for (int i = 0; i < nr_words; i++) {
		if (!strcmp(words[i], "uniform")) {
			set->order = UNIFORM;
		} else if (!strcmp(words[i], "zipf")) {
			set->order = ZIPF;
		} else if (!strcmp(words[i], "scattered")) {
			set->order = SCATTERED;
		} else if (!strncmp(words[i], "scattered=", 10)) {
			set->order = SCATTERED;
			skew = strtod(words[i] + 10, &end);
			if (end == words[i] + 10 || *end || skew < 0) {
				reply("error not a skew: %s", words[i]);
				return false;
			}
		} else if (!strncmp(words[i], "seed=", 5)) {
			if (!number(words[i] + 5, &set->seed))
				return false;
		} else if (!strncmp(words[i], "every=", 6)) {
			if (!number(words[i] + 6, &set->every))
				return false;
		} else if (!strncmp(words[i], "drift=", 6)) {
			set->drift_hz = strtod(words[i] + 6, NULL);
		} else {
			reply("error what is %s?", words[i]);
			return false;
		}
	}
	if (!set->every || set->every > set->hot_pages) {
		reply("error every= how many pages?");
		return false;
	}
	set->hot_pages /= set->every;
	if (set->order == SCATTERED && (set->every > 1 || set->drift_hz > 0)) {
		reply("error a scattered set has neither every= nor drift=");
		return false;
	}
	return (set->order != ZIPF && set->order != SCATTERED) || rank_all(set, skew);
}

static void do_hot(int nr_words, char **words)
{
	struct set *set = find(words[1]);
	char *end = NULL;
	double rate_hz = nr_words > 2 ? strtod(words[2], &end) : 0.0;
	int parts = nr_words > 3 && *words[3] >= '0' && *words[3] <= '9' ? 2 : 0;

	if (parts && nr_words < 5) {
		reply("error hot NAME RATE OFFSET LENGTH");
		return;
	}
	if (!set || !part(set, parts, words + 3, &set->hot_first, &set->hot_pages))
		return;
	if (rate_hz < 0 || (end && *end)) {
		reply("error not a rate: %s", words[2]);
		return;
	}
	set->hot = false;
	if (!hot_options(set, nr_words > 3 ? nr_words - 3 - parts : 0, words + 3 + parts))
		return;
	set->hot = true;
	set->rate_hz = rate_hz;
	set->cursor = 0;
	set->touched = 0;
	/* The first pass is at once, so that the set is hot when this is answered. */
	set->due = (double)set->hot_pages;
	reply("ok");
}

static void do_move(int nr_words, char **words)
{
	struct set *set = find(words[1]);
	struct transfer transfer = { .rounds = MOVE_ROUNDS };

	if (!set)
		return;
	if (nr_words < 4 || !number(words[2], &transfer.node) ||
	    !number(words[3], &transfer.rate_bytes)) {
		if (nr_words < 4)
			reply("error move NAME NODE RATE [OFFSET LENGTH]");
		return;
	}
	if (!part(set, nr_words - 4, words + 4, &transfer.first, &transfer.pages))
		return;
	set->transfer = transfer;
	reply("ok");
}

/* Move the pages of a set that are due. A page that cannot be moved is tried in the next round. */
static void carry(struct set *set, long elapsed_ns)
{
	struct transfer *transfer = &set->transfer;
	static void *asked[MOVE_BATCH], *wanted[MOVE_BATCH];
	static int found[MOVE_BATCH], nodes[MOVE_BATCH];
	size_t count = 0, moving = 0;

	if (!transfer->rounds)
		return;
	transfer->due += (double)transfer->rate_bytes / PAGE * (double)elapsed_ns / 1e9;
	/* On a slow machine, pages that have been due for more than a second are dropped. */
	if (transfer->due > (double)transfer->rate_bytes / PAGE)
		transfer->due = (double)transfer->rate_bytes / PAGE;
	while (count < MOVE_BATCH && (double)count < transfer->due &&
	       transfer->cursor + count < transfer->pages) {
		asked[count] = set->start + (transfer->first + transfer->cursor + count) * PAGE;
		count++;
	}
	if (!count || syscall(SYS_move_pages, 0, count, asked, NULL, found, 0))
		return;
	transfer->cursor += count;
	for (size_t i = 0; i < count; i++)
		if (found[i] >= 0 && found[i] != (int)transfer->node) {
			nodes[moving] = (int)transfer->node;
			wanted[moving++] = asked[i];
		}
	if (moving)
		syscall(SYS_move_pages, 0, moving, wanted, nodes, found, 2 /* MPOL_MF_MOVE */);
	transfer->due -= (double)moving;
	transfer->left += moving;
	if (transfer->cursor == transfer->pages) {
		transfer->rounds = transfer->left ? transfer->rounds - 1 : 0;
		transfer->cursor = transfer->left = 0;
	}
}

/* Look at the next few tracked pages, one set after the other. */
static void track(void)
{
	static void *asked[TRACK_BATCH];
	static int found[TRACK_BATCH];
	struct set *set;
	size_t first = tracked_at, count = 0;

	if (!tracking || !nr_sets)
		return;
	if (tracked_set >= nr_sets)
		tracked_set = 0;
	set = &sets[tracked_set];
	for (; count < TRACK_BATCH && (first + count) * TRACK_STRIDE < set->pages; count++)
		asked[count] = set->start + (first + count) * TRACK_STRIDE * PAGE;
	tracked_at += count;
	if (!set->seen || count < TRACK_BATCH) {
		tracked_set++;
		tracked_at = 0;
	}
	if (!count || !set->seen || syscall(SYS_move_pages, 0, count, asked, NULL, found, 0))
		return;
	for (size_t i = 0; i < count; i++) {
		unsigned char *seen = &set->seen[first + i];

		/* A page on its way is seen when it has arrived. */
		if (found[i] < 0 || found[i] >= NODES_MAX || found[i] == *seen)
			continue;
		if (*seen != UNSEEN) {
			moved_to += found[i] == tracked_node;
			moved_from += *seen == tracked_node;
			if (set->changes[first + i] < 255)
				set->changes[first + i]++;
		}
		*seen = (unsigned char)found[i];
	}
}

static void do_track(const char *word)
{
	unsigned long node;

	if (!number(word, &node))
		return;
	for (size_t i = 0; i < nr_sets; i++) {
		size_t count = sets[i].pages / TRACK_STRIDE + 1;

		free(sets[i].seen);
		free(sets[i].changes);
		sets[i].seen = malloc(count);
		sets[i].changes = calloc(count, 1);
		if (!sets[i].seen || !sets[i].changes) {
			reply("error no memory");
			return;
		}
		memset(sets[i].seen, UNSEEN, count);
	}
	tracking = nr_sets > 0;
	tracked_node = (int)node;
	tracked_set = tracked_at = moved_to = moved_from = 0;
	/* Find where each page is at the beginning. */
	while (tracking && tracked_set < nr_sets)
		track();
	reply("ok");
}

static void say_moves(void)
{
	size_t often = 0;

	for (size_t i = 0; i < nr_sets; i++)
		for (size_t at = 0; sets[i].changes && at * TRACK_STRIDE < sets[i].pages; at++)
			often += sets[i].changes[at] >= OFTEN;
	reply("ok %zu %zu %zu", moved_to * TRACK_STRIDE, moved_from * TRACK_STRIDE,
	      often * TRACK_STRIDE);
}

static void do_where(int nr_words, char **words)
{
	struct set *set = find(words[1]);
	unsigned long stride = 1;
	size_t first, pages;

	if (!set || !part(set, nr_words > 3 ? 2 : nr_words - 2, words + 2, &first, &pages))
		return;
	if (nr_words > 4 && !number(words[4], &stride))
		return;
	say_where(set, first, pages, stride ? stride : 1);
}

static void do_check(const struct set *set)
{
	size_t wrong = 0;

	for (size_t page = 0; page < set->pages; page++)
		wrong += mark(set, page)->tag != tag(set, page);
	if (wrong)
		reply("error %zu of %zu pages of %s were changed", wrong, set->pages, set->name);
	else
		reply("ok %zu", set->pages);
}

static void do_free(struct set *set)
{
	unmap(set);
	*set = sets[--nr_sets];
	reply("ok");
}

/* False ends the program. */
static bool obey(char *line)
{
	char *words[WORDS_MAX], *rest = NULL;
	int nr_words = 0;
	struct set *set;
	unsigned long value;

	for (char *word = strtok_r(line, " \n", &rest); word && nr_words < WORDS_MAX;
	     word = strtok_r(NULL, " \n", &rest))
		words[nr_words++] = word;
	if (!nr_words || !strcmp(words[0], "quit"))
		return !nr_words;
	if (nr_words < 2) {
		reply("error %s of what?", words[0]);
	} else if (!strcmp(words[0], "alloc")) {
		do_alloc(nr_words, words);
	} else if (!strcmp(words[0], "hot")) {
		do_hot(nr_words, words);
	} else if (!strcmp(words[0], "where")) {
		do_where(nr_words, words);
	} else if (!strcmp(words[0], "move")) {
		do_move(nr_words, words);
	} else if (!strcmp(words[0], "track")) {
		do_track(words[1]);
	} else if (!strcmp(words[0], "moves")) {
		say_moves();
	} else if (!strcmp(words[0], "flush")) {
		if (number(words[1], &value)) {
			flush_us = (long)value;
			reply("ok");
		}
	} else if ((set = find(words[1]))) {
		if (!strcmp(words[0], "cold")) {
			set->hot = false;
			reply("ok");
		} else if (!strcmp(words[0], "passes")) {
			reply("ok %lu", set->hot_pages ? set->touched / set->hot_pages : 0UL);
		} else if (!strcmp(words[0], "latency")) {
			do_latency(set);
		} else if (!strcmp(words[0], "hits") && nr_words > 2 && set->hot_pages) {
			do_hits(set, words[2]);
		} else if (!strcmp(words[0], "served") && set->order == SCATTERED) {
			do_served(set);
		} else if (!strcmp(words[0], "best") && nr_words > 2 && set->order == SCATTERED) {
			do_best(set, words[2]);
		} else if (!strcmp(words[0], "check")) {
			do_check(set);
		} else if (!strcmp(words[0], "free")) {
			do_free(set);
		} else {
			reply("error what is %s?", words[0]);
		}
	}
	return true;
}

/* Read from stdin and obey each whole line; false ends the program. */
static bool listen(int timeout_ms)
{
	static char line[LINE_BYTES];
	static size_t held;
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	char *end;
	ssize_t got;

	if (poll(&in, 1, timeout_ms) <= 0)
		return true;
	got = read(STDIN_FILENO, line + held, sizeof(line) - 1 - held);
	if (got <= 0)
		return false;
	held += (size_t)got;
	line[held] = '\0';
	while ((end = strchr(line, '\n'))) {
		size_t length = (size_t)(end - line) + 1;

		*end = '\0';
		if (!obey(line))
			return false;
		held -= length;
		memmove(line, line + length, held + 1);
	}
	return held < sizeof(line) - 1;
}

static void touch_one(struct set *set)
{
	size_t value;

	if (set->order != SCATTERED) {
		mark(set, hot_page(set, next_position(set)))->touches++;
		return;
	}
	/* Read the value. It lies after the mark of its page. */
	value = next_value(set);
	(void)*(volatile uint64_t *)(set->start + hot_page(set, value / PAGE_VALUES) * PAGE +
				     value % PAGE_VALUES * VALUE + sizeof(struct mark));
}

static void touch(struct set *set, size_t pages)
{
	set->touched += pages;
	while (pages) {
		size_t request = pages < REQUEST_PAGES ? pages : REQUEST_PAGES;
		long began_ns = now_ns();

		for (size_t i = 0; i < request; i++)
			touch_one(set);
		if (request == REQUEST_PAGES)
			record(set, now_ns() - began_ns);
		pages -= request;
	}
}

/* Touch the pages that are due, until `until_ns`. True if a set has rate 0: more is always due. */
static bool turn(long elapsed_ns, long until_ns)
{
	bool more = true, eager = false;

	for (size_t i = 0; i < nr_sets; i++) {
		struct set *set = &sets[i];

		if (!set->hot)
			continue;
		eager |= set->rate_hz == 0;
		set->drifted += set->drift_hz * (double)elapsed_ns / 1e9;
		set->due += set->rate_hz * (double)set->hot_pages * (double)elapsed_ns / 1e9;
		/* On a slow machine, touches that are late by more than a pass are dropped. */
		if (set->due > (double)set->hot_pages)
			set->due = (double)set->hot_pages;
	}
	while (more && now_ns() < until_ns) {
		more = false;
		for (size_t i = 0; i < nr_sets; i++) {
			struct set *set = &sets[i];
			size_t pages = BATCH_PAGES;

			if (!set->hot)
				continue;
			if (set->rate_hz > 0 && set->due < (double)pages)
				pages = (size_t)set->due;
			if (!pages)
				continue;
			touch(set, pages);
			set->due -= (double)pages;
			more = true;
		}
	}
	return eager;
}

static void flush_translations(void)
{
	mprotect(flush_area, FLUSH_PAGES * PAGE, PROT_READ);
	mprotect(flush_area, FLUSH_PAGES * PAGE, PROT_READ | PROT_WRITE);
	/* Write to the pages, because only pages that are present and writable need the next flush. */
	for (size_t page = 0; page < FLUSH_PAGES; page++)
		flush_area[page * PAGE]++;
}

int main(void)
{
	long last_ns = now_ns(), flushed_ns = 0;
	bool eager = false;

	flush_area = mmap(NULL, FLUSH_PAGES * PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (flush_area == MAP_FAILED) {
		reply("error mmap: %s", strerror(errno));
		return 1;
	}
	reply("ready");
	while (listen(eager ? 0 : TURN_NS / 1000000L)) {
		long start_ns = now_ns();

		if (flush_us && start_ns - flushed_ns >= flush_us * 1000L) {
			flush_translations();
			flushed_ns = start_ns;
		}
		for (size_t i = 0; i < nr_sets; i++)
			carry(&sets[i], start_ns - last_ns);
		track();
		eager = turn(start_ns - last_ns, start_ns + TURN_NS);
		last_ns = start_ns;
	}
	for (size_t i = 0; i < nr_sets; i++)
		unmap(&sets[i]);
	return 0;
}
