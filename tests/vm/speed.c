/*
 * speed: measures how long a touch of a node's memory takes, in a guest.
 *
 * gcc -O2 -static -o speed speed.c
 *
 *   speed SAMPLES MEASURE:NODE:BYTES...
 *
 * Each measure has BYTES of memory of its own, a power of two, all of it on NODE:
 *
 *   chase    follow pointers from line to line, in an order that no prefetcher knows
 *   stream   read a word of each line, one after the other
 *   pair     the same, while another processor does so too; the lines of both are counted
 *
 * Samples are short and are taken in turn, one of each measure, so a busy host disturbs all alike.
 * For each measure a line is printed: its words as they were given, then each sample, in
 * nanoseconds per line of memory.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE 64UL
#define MEASURES_MAX 16
/* A chase of this many lines takes less than a time slice of the scheduler, on either machine. */
#define CHASE_LINES 100UL
#define STREAM_LINES 256UL
#define AHEAD_LINES 16UL

/* From linux/mempolicy.h, which a machine may lack. */
enum { POLICY_DEFAULT = 0, POLICY_BIND = 2 };

struct measure {
	const char *text;
	char kind;
	unsigned long node;
	unsigned char *start;
	size_t lines;
	size_t at;
	volatile uint64_t *others; /* lines that the other processor has read */
	double *samples;
};

static volatile uint64_t sink;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static void policy(int mode, unsigned long mask)
{
	if (syscall(SYS_set_mempolicy, mode, mask ? &mask : NULL, mask ? 65UL : 0UL))
		fail("set_mempolicy");
}

static uint64_t *word(const struct measure *measure, size_t line)
{
	return (uint64_t *)(measure->start + (line & (measure->lines - 1)) * LINE);
}

/* Write into each line the number of the next, by a generator whose period is the line count. */
static void lay_out(struct measure *measure)
{
	policy(POLICY_BIND, 1UL << measure->node);
	measure->start = mmap(NULL, measure->lines * LINE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	measure->others = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (measure->start == MAP_FAILED || measure->others == MAP_FAILED)
		fail("mmap");
	for (size_t line = 0; line < measure->lines; line++)
		*word(measure, line) = line * 1664525UL + 1013904223UL;
	policy(POLICY_DEFAULT, 0);
}

static void stream(struct measure *measure, size_t lines)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < lines; i++)
		sum += *word(measure, measure->at++);
	sink = sum;
}

static void chase(struct measure *measure, size_t lines)
{
	uint64_t at = measure->at;

	for (size_t i = 0; i < lines; i++)
		at = *word(measure, at);
	measure->at = at;
}

/* Start a process on another processor that reads a measure's memory until it is killed. */
static pid_t companion(struct measure *measure)
{
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	stay_on(1);
	/* Go on where the one before it ended, because the lines that it read are in the cache. */
	measure->at = measure->lines / 2 + *measure->others;
	for (;;) {
		stream(measure, AHEAD_LINES);
		*measure->others += AHEAD_LINES;
	}
}

static double sample(struct measure *measure)
{
	uint64_t others = *measure->others;
	pid_t child = measure->kind == 'p' ? companion(measure) : 0;
	size_t lines = measure->kind == 'c' ? CHASE_LINES : STREAM_LINES;
	double began_ns, took_ns;

	/* The first line of a stream is not prefetched, and a companion takes a while to begin. */
	do
		stream(measure, measure->kind == 'c' ? 0 : AHEAD_LINES);
	while (child && *measure->others - others < STREAM_LINES);
	/* The clock is read before and after both counts, so that all counted lines are timed. */
	began_ns = now_ns();
	others = *measure->others;
	if (measure->kind == 'c')
		chase(measure, lines);
	else
		stream(measure, lines);
	lines += *measure->others - others;
	took_ns = now_ns() - began_ns;
	if (child)
		kill(child, SIGKILL);
	return took_ns / (double)lines;
}

int main(int argc, char **argv)
{
	static struct measure measures[MEASURES_MAX];
	size_t samples = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	int nr = argc - 2;

	if (!samples || nr > MEASURES_MAX) {
		fprintf(stderr, "speed SAMPLES MEASURE:NODE:BYTES...\n");
		return 2;
	}
	signal(SIGCHLD, SIG_IGN);
	stay_on(0);
	for (int i = 0; i < nr; i++) {
		unsigned long bytes;

		measures[i].text = argv[i + 2];
		measures[i].kind = *argv[i + 2];
		measures[i].samples = calloc(samples, sizeof(double));
		if (sscanf(argv[i + 2], "%*[a-z]:%lu:%lu", &measures[i].node, &bytes) != 2) {
			fprintf(stderr, "speed: what is %s?\n", argv[i + 2]);
			return 2;
		}
		measures[i].lines = bytes / LINE;
		lay_out(&measures[i]);
		/* Memory that fits in the cache is in the cache before it is measured. */
		for (int turn = 0; measures[i].kind == 'c' && turn < 2; turn++)
			chase(&measures[i], measures[i].lines < 8192 ? measures[i].lines : 0);
	}
	for (size_t number = 0; number < samples; number++)
		for (int i = 0; i < nr; i++)
			measures[i].samples[number] = sample(&measures[i]);
	for (int i = 0; i < nr; i++) {
		printf("%s", measures[i].text);
		for (size_t number = 0; number < samples; number++)
			printf(" %.1f", measures[i].samples[number]);
		putchar('\n');
	}
	return 0;
}
