/*
 * workload: memory of a known heat at a known place, and where it is now.
 *
 * Tests and benchmarks talk to it in lines on stdin and stdout. It is static and needs neither
 * libnuma nor threads: gcc -O2 -static -o workload workload.c -lm
 *
 *   alloc NAME NODE BYTES [bind] [thp] [timed] [file=PATH]
 *                          a set of pages, faulted in at once. NODE is where they should go if it
 *                          has room, "-" for anywhere. With bind nowhere else: below the node's
 *                          watermarks that wakes kswapd, and at worst the OOM killer. With file=
 *                          they are page cache of PATH, which is created and unlinked again. With
 *                          timed `latency` tells what each fault took.
 *   hot NAME [RATE [OFFSET LENGTH]] [uniform|zipf] [every=N] [drift=RATE]
 *                          touch all pages of the set, or of a part of it, RATE times a second;
 *                          0, the default, is as often as one processor can. In order, or drawn at
 *                          random: each as likely (uniform), or by rank (zipf, 0.99), where what is
 *                          next to each other in a MiB is so in rank, and the MiBs are shuffled.
 *                          With every= each N-th page only; with drift= the part moves through the
 *                          set by so many pages a second.
 *   cold NAME              touch none of them any more.
 *   passes NAME            how often all its hot pages were touched since the last `hot`.
 *   latency NAME           "COUNT P50 P99 MAX" in ns, of requests (64 touched pages each) or of
 *                          timed faults, since the last time this was asked.
 *   hits NAME STRIDE       pages per node, of every STRIDE-th of the touches to come.
 *   move NAME NODE RATE [OFFSET LENGTH]
 *                          from now on bring these pages to NODE, RATE bytes a second, and stop.
 *   track NODE             from now on watch each 16th page of all sets, and count its moves to
 *                          NODE and away from it.
 *   moves NODE             "TO FROM OFTEN": these pages so far, times 16, and how many moved three
 *                          times or more.
 *   where NAME [OFFSET LENGTH [STRIDE]]
 *                          pages per node, of every page or of each STRIDE-th.
 *   check NAME             whether every page still holds what was written there.
 *   free NAME              give the pages back.
 *   flush MICROSECONDS     how often translations are dropped (see below); 0 is never.
 *   quit                   or the end of stdin.
 *
 * Each command is answered by one line, "ok ..." or "error ...". The first line is "ready".
 * Offsets, lengths and BYTES are in bytes; what is counted is 4 KiB pages.
 *
 * Why flush: under software emulation (TCG) a translation stays in QEMU's own TLB when the guest's
 * kernel clears the accessed bit without a flush, as DAMON does. The bit is then never set again
 * and the hottest page looks idle. Changing the protection of more pages than the kernel flushes
 * one by one (33) makes it flush all. On hardware it is not needed: flush 0.
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

/* The loop turns once in this time: it touches what is due and looks for a command. */
#define TURN_NS 2000000L
/* How many pages are touched between two looks at the clock. */
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

#define TRACK_STRIDE 16UL
/* Pages that are looked at in a turn: all of 1 GiB in half a second. */
#define TRACK_BATCH 64UL
#define UNSEEN 255
#define OFTEN 3

#define MOVE_BATCH 256UL
/* A page that will not move is tried so often. */
#define MOVE_ROUNDS 20

/* Of linux/mempolicy.h, which a machine may lack. */
enum { POLICY_DEFAULT = 0, POLICY_PREFERRED = 1, POLICY_BIND = 2 };

enum order { IN_ORDER, UNIFORM, ZIPF };

/* Pages that are being brought to a node. */
struct transfer {
	size_t first, pages, cursor, left;
	unsigned long node, rate_bytes;
	double due; /* pages that may be moved by now */
	int rounds; /* 0: nothing to do */
};

struct set {
	char name[NAME_BYTES];
	char path[256]; /* of the file behind it, or empty */
	unsigned char *mapped; /* what munmap() gets */
	size_t mapped_bytes;
	unsigned char *start;
	size_t pages;
	bool hot;
	double rate_hz; /* 0: as often as possible */
	size_t hot_first, hot_pages, every; /* hot_pages are those that are touched */
	double drift_hz, drifted;
	enum order order;
	uint32_t *ranks; /* of zipf: the rank at each step of the distribution */
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

/* OFFSET LENGTH in words[0..1] to a range of pages; without words the whole set. */
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

/* The latency that this share of all stays below, as the middle of its bucket. */
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

/* Which page of the set a position in its hot part is. */
static size_t hot_page(const struct set *set, size_t position)
{
	return (set->hot_first + (size_t)set->drifted + position * set->every) % set->pages;
}

/* The position in the hot part that is touched next. */
static size_t next_position(struct set *set)
{
	size_t low, high, rank, blocks, step;

	if (set->order == UNIFORM)
		return roll() % set->hot_pages;
	if (set->order == IN_ORDER) {
		if (++set->cursor >= set->hot_pages)
			set->cursor = 0;
		return set->cursor;
	}
	step = roll() % ZIPF_STEPS;
	low = set->ranks[step];
	high = set->ranks[step + 1];
	rank = low + (high > low ? roll() % (high - low) : 0);
	/* A prime larger than any number of blocks here: every block has one place. */
	blocks = set->hot_pages / RANK_PAGES;
	if (rank >= blocks * RANK_PAGES)
		return rank;
	return rank / RANK_PAGES * 7919 % blocks * RANK_PAGES + rank % RANK_PAGES;
}

/* The ranks at equal steps of the cumulated distribution. */
static void rank_pages(struct set *set)
{
	double sum = 0, total = 0;
	size_t step = 0;

	for (size_t rank = 0; rank < set->hot_pages; rank++)
		total += pow((double)rank + 1, -ZIPF_SKEW);
	for (size_t rank = 0; rank < set->hot_pages; rank++) {
		for (; step < ZIPF_STEPS && sum * ZIPF_STEPS >= (double)step * total; step++)
			set->ranks[step] = (uint32_t)rank;
		sum += pow((double)rank + 1, -ZIPF_SKEW);
	}
	for (; step <= ZIPF_STEPS; step++)
		set->ranks[step] = (uint32_t)set->hot_pages;
}

/* Counts pages per node into `nodes`, and those that are nowhere; false has answered already. */
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
		if (syscall(SYS_move_pages, 0, count, asked, NULL, found, 0)) {
			reply("error move_pages: %s", strerror(errno));
			return false;
		}
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
	size_t nodes[NODES_MAX] = { 0 }, found[NODES_MAX], absent, gone = 0;
	unsigned long stride;

	if (!number(word, &stride))
		return;
	for (size_t at = 0; at < set->hot_pages; at += stride ? stride : 1) {
		size_t position = set->order == ZIPF ? next_position(set) : at;

		if (!locate(set, hot_page(set, position), 1, 1, found, &absent))
			return;
		gone += absent;
		for (size_t node = 0; node < NODES_MAX; node++)
			nodes[node] += found[node];
	}
	say_nodes(nodes, gone);
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
	/* Refused where the kernel has no huge pages, which then is as well. */
	madvise(set->mapped, set->mapped_bytes, thp ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return true;
}

static void unmap(struct set *set)
{
	munmap(set->mapped, set->mapped_bytes);
	free(set->ranks);
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
	set->order = IN_ORDER;
	set->every = 1;
	set->drift_hz = set->drifted = 0;
	for (int i = 0; i < nr_words; i++) {
		if (!strcmp(words[i], "uniform")) {
			set->order = UNIFORM;
		} else if (!strcmp(words[i], "zipf")) {
			set->order = ZIPF;
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
	if (set->order == ZIPF) {
		free(set->ranks);
		set->ranks = malloc((ZIPF_STEPS + 1) * sizeof(*set->ranks));
		if (!set->ranks) {
			reply("error no memory");
			return false;
		}
		rank_pages(set);
	}
	return true;
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

/* Move what is due of a set; a page that could not be moved has its turn in the next round. */
static void carry(struct set *set, long elapsed_ns)
{
	struct transfer *transfer = &set->transfer;
	static void *asked[MOVE_BATCH], *wanted[MOVE_BATCH];
	static int found[MOVE_BATCH], nodes[MOVE_BATCH];
	size_t count = 0, moving = 0;

	if (!transfer->rounds)
		return;
	transfer->due += (double)transfer->rate_bytes / PAGE * (double)elapsed_ns / 1e9;
	/* What a slow machine did not manage is forgotten after a second. */
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
	/* Where each page is to begin with. */
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

/* Reads what stdin has and obeys each whole line of it; false ends the program. */
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

static void touch(struct set *set, size_t pages)
{
	set->touched += pages;
	while (pages) {
		size_t request = pages < REQUEST_PAGES ? pages : REQUEST_PAGES;
		long began_ns = now_ns();

		for (size_t i = 0; i < request; i++)
			mark(set, hot_page(set, next_position(set)))->touches++;
		if (request == REQUEST_PAGES)
			record(set, now_ns() - began_ns);
		pages -= request;
	}
}

/* Touches the pages that are due, until `until_ns`; true if it could go on without waiting. */
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
		/* What a slow machine did not manage is forgotten after one pass. */
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
	/* Pages that are not there need no flush, and those of the next round have to be written. */
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
