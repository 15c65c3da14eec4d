/*
 * workload: memory of a known heat at a known place, and where it is now.
 *
 * Tests and benchmarks talk to it in lines on stdin and stdout. It is static and needs neither
 * libnuma nor threads: gcc -O2 -static -o workload workload.c
 *
 *   alloc NAME NODE BYTES [bind] [thp] [file=PATH]
 *                          a set of pages, faulted in at once. NODE is where they should go if it
 *                          has room, "-" for anywhere. With bind nowhere else: below the node's
 *                          watermarks that wakes kswapd, and at worst the OOM killer. With file=
 *                          they are page cache of PATH, which is created and unlinked again.
 *   hot NAME [RATE [OFFSET LENGTH]]
 *                          touch all pages of the set, or of a part of it, RATE times a second;
 *                          0, the default, is as often as one processor can.
 *   cold NAME              touch none of them any more.
 *   passes NAME            how often all its hot pages were touched since the last `hot`.
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
#define WORDS_MAX 8
#define NAME_BYTES 32
#define LINE_BYTES 1024

/* The loop turns once in this time: it touches what is due and looks for a command. */
#define TURN_NS 2000000L
/* How many pages are touched between two looks at the clock. */
#define BATCH_PAGES 256UL
#define FLUSH_PAGES 64UL
#define FLUSH_US_DEFAULT 2000L
#define WHERE_BATCH 1024UL

/* Of linux/mempolicy.h, which a machine may lack. */
enum { POLICY_DEFAULT = 0, POLICY_PREFERRED = 1, POLICY_BIND = 2 };

struct set {
	char name[NAME_BYTES];
	char path[256]; /* of the file behind it, or empty */
	unsigned char *mapped; /* what munmap() gets */
	size_t mapped_bytes;
	unsigned char *start;
	size_t pages;
	bool hot;
	double rate_hz; /* 0: as often as possible */
	size_t hot_first, hot_pages;
	size_t cursor; /* in the hot part */
	double due; /* pages that should have been touched by now */
	uint64_t touched;
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

static void say_where(const struct set *set, size_t first, size_t pages, size_t stride)
{
	size_t nodes[NODES_MAX], absent, at = 0;
	char line[LINE_BYTES] = "";

	if (!locate(set, first, pages, stride, nodes, &absent))
		return;
	for (size_t node = 0; node < NODES_MAX; node++)
		if (nodes[node])
			at += snprintf(line + at, sizeof(line) - at, " %zu:%zu", node, nodes[node]);
	if (absent)
		snprintf(line + at, sizeof(line) - at, " absent:%zu", absent);
	reply("ok%s", line);
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
	if (*set->path)
		unlink(set->path);
}

static void do_alloc(int nr_words, char **words)
{
	struct set *set = &sets[nr_sets];
	unsigned long node = 0, bytes;
	bool anywhere = nr_words > 2 && !strcmp(words[2], "-"), bind = false, thp = false;

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
		for (size_t page = 0; page < set->pages; page++)
			mark(set, page)->tag = tag(set, page);
		nr_sets++;
		say_where(set, 0, set->pages, 1);
	}
	if (!anywhere)
		policy(POLICY_DEFAULT, 0);
}

static void do_hot(int nr_words, char **words)
{
	struct set *set = find(words[1]);
	char *end = NULL;
	double rate_hz = nr_words > 2 ? strtod(words[2], &end) : 0.0;
	size_t first, pages;

	if (!set || !part(set, nr_words > 3 ? nr_words - 3 : 0, words + 3, &first, &pages))
		return;
	if (rate_hz < 0 || (end && *end)) {
		reply("error not a rate: %s", words[2]);
		return;
	}
	set->hot = true;
	set->rate_hz = rate_hz;
	set->hot_first = first;
	set->hot_pages = pages;
	set->cursor = 0;
	set->touched = 0;
	/* The first pass is at once, so that the set is hot when this is answered. */
	set->due = (double)pages;
	reply("ok");
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
	while (pages--) {
		mark(set, set->hot_first + set->cursor)->touches++;
		if (++set->cursor == set->hot_pages)
			set->cursor = 0;
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
		eager = turn(start_ns - last_ns, start_ns + TURN_NS);
		last_ns = start_ns;
	}
	for (size_t i = 0; i < nr_sets; i++)
		unmap(&sets[i]);
	return 0;
}
