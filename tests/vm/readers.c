/*
 * readers: processes that read lines of one piece of memory at random, as fast as memory answers.
 *
 * gcc -O2 -static -o readers readers.c
 *
 *   readers PROCESSES BYTES FAST SLOW FAST_PERMILLE SECONDS
 *
 * The first FAST_PERMILLE of the memory begins on node FAST, the rest on node SLOW. Afterwards
 * anybody may move it. For each second a line is printed: how many lines all processes have read in
 * it, and how many of 1000 pages are on node FAST then.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE 64UL
#define PAGE 4096UL
#define PROCESSES_MAX 16
/* Pages that are looked up at each second. They are spread over all of the memory. */
#define ASKED 500UL

/* From linux/mempolicy.h, which a machine may lack. */
enum { POLICY_DEFAULT = 0, POLICY_BIND = 2 };

struct counter {
	volatile uint64_t lines;
	char apart[LINE - sizeof(uint64_t)];
} __attribute__((aligned(LINE)));

static volatile uint64_t sink;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void *mapped(size_t bytes)
{
	void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED)
		fail("mmap");
	return start;
}

static void fill(unsigned char *start, unsigned char *end, unsigned long node)
{
	unsigned long mask = 1UL << node;

	if (syscall(SYS_set_mempolicy, POLICY_BIND, &mask, 65UL))
		fail("set_mempolicy");
	for (unsigned char *page = start; page < end; page += PAGE)
		*page = 1;
	if (syscall(SYS_set_mempolicy, POLICY_DEFAULT, NULL, 0UL))
		fail("set_mempolicy");
}

static void read_lines(const unsigned char *start, size_t lines, struct counter *mine, uint64_t seed)
{
	uint64_t at = seed, sum = 0;

	for (;;) {
		/* A generator by Marsaglia (xorshift). */
		at ^= at << 13;
		at ^= at >> 7;
		at ^= at << 17;
		sum += start[at % lines * LINE];
		mine->lines++;
		sink = sum;
	}
}

static unsigned long on_node(unsigned char *start, size_t pages, int node)
{
	void *asked[ASKED];
	int nodes[ASKED];
	unsigned long found = 0;

	for (size_t i = 0; i < ASKED; i++)
		asked[i] = start + i * pages / ASKED * PAGE;
	if (syscall(SYS_move_pages, 0, ASKED, asked, NULL, nodes, 0))
		fail("move_pages");
	for (size_t i = 0; i < ASKED; i++)
		found += nodes[i] == node;
	return found * 1000 / ASKED;
}

int main(int argc, char **argv)
{
	unsigned long processes, bytes, fast, slow, permille, seconds, lines = 0;
	struct counter *counters;
	unsigned char *start;

	if (argc != 7) {
		fprintf(stderr, "readers PROCESSES BYTES FAST SLOW FAST_PERMILLE SECONDS\n");
		return 2;
	}
	processes = strtoul(argv[1], NULL, 10);
	bytes = strtoul(argv[2], NULL, 10) / PAGE * PAGE;
	fast = strtoul(argv[3], NULL, 10);
	slow = strtoul(argv[4], NULL, 10);
	permille = strtoul(argv[5], NULL, 10);
	seconds = strtoul(argv[6], NULL, 10);
	if (!processes || processes > PROCESSES_MAX || !bytes || permille > 1000)
		return 2;
	signal(SIGCHLD, SIG_IGN);
	start = mapped(bytes);
	counters = mapped(PROCESSES_MAX * sizeof(*counters));
	fill(start, start + bytes / PAGE * permille / 1000 * PAGE, fast);
	fill(start + bytes / PAGE * permille / 1000 * PAGE, start + bytes, slow);
	for (unsigned long i = 0; i < processes; i++) {
		pid_t child = fork();

		if (child < 0)
			fail("fork");
		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			read_lines(start, bytes / LINE, &counters[i], 0x9e3779b97f4a7c15UL * (i + 1));
		}
	}
	for (unsigned long second = 0; second < seconds; second++) {
		struct timespec one = { 1, 0 }, began, ended;
		unsigned long now = 0;
		double took_s;

		clock_gettime(CLOCK_MONOTONIC, &began);
		nanosleep(&one, NULL);
		for (unsigned long i = 0; i < processes; i++)
			now += counters[i].lines;
		clock_gettime(CLOCK_MONOTONIC, &ended);
		took_s = (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
		printf("%.0f %lu\n", (double)(now - lines) / took_s,
		       on_node(start, bytes / PAGE, (int)fast));
		fflush(stdout);
		lines = now;
	}
	/* The children end with this process. */
	return 0;
}
