/*
 * seconds.h: counts operations and their latencies, and prints a line for each second.
 *
 *   second BEGAN ENDED OPERATIONS P50 P99        in ns of the monotonic clock
 *
 * At the end of each second it marks the moment for the plugin slow.c, which then writes its counters.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define NS_PER_S 1000000000L
/* Latencies are counted in 16 steps for each power of two, so they are known within 6 %. */
#define STEP_BITS 4
#define STEPS (64 << STEP_BITS)
/* The plugin writes its counters when a program touches a line of this page. */
#define MARKS 0x6d61726b0000UL
#define MARKS_BYTES 4096UL
#define MARK_LINE_BYTES 64UL

struct seconds {
	unsigned number; /* the seconds that are over */
	long began_ns;
	uint64_t operations;
	uint64_t steps[STEPS];
};

static inline long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static inline void map_marks(void)
{
	if (mmap((void *)MARKS, MARKS_BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != (void *)MARKS) {
		perror("mmap of the page of marks");
		exit(1);
	}
}

static inline void mark(unsigned number)
{
	*(volatile char *)(MARKS + number * MARK_LINE_BYTES % MARKS_BYTES) = 1;
}

static inline unsigned step_of(long ns)
{
	uint64_t value = ns > 1 << STEP_BITS ? (uint64_t)ns : 1 << STEP_BITS;
	unsigned power = 63 - (unsigned)__builtin_clzll(value);

	return power << STEP_BITS | (value >> (power - STEP_BITS) & ((1 << STEP_BITS) - 1));
}

/* Return the latency that this share of the operations does not exceed: the middle of its step. */
static inline long quantile(const struct seconds *told, double share)
{
	uint64_t seen = 0;

	for (unsigned step = 0; step < STEPS; step++) {
		seen += told->steps[step];
		if (seen && (double)seen >= share * (double)told->operations) {
			unsigned power = step >> STEP_BITS;
			uint64_t base = (1ULL << STEP_BITS) + (step & ((1 << STEP_BITS) - 1));

			return (long)(((2 * base + 1) << (power - STEP_BITS)) / 2);
		}
	}
	return 0;
}

/* Begin the first second. */
static inline struct seconds seconds_begun(void)
{
	mark(0);
	return (struct seconds){ .began_ns = now_ns() };
}

/* Count an operation that has ended now. If its second is over, print it and begin the next. */
static inline void seconds_add(struct seconds *told, long took_ns, long now)
{
	told->steps[step_of(took_ns)]++;
	told->operations++;
	if (now - told->began_ns < NS_PER_S)
		return;
	printf("second %ld %ld %lu %ld %ld\n", told->began_ns, now, told->operations,
	       quantile(told, 0.5), quantile(told, 0.99));
	fflush(stdout);
	mark(++told->number);
	memset(told->steps, 0, sizeof(told->steps));
	told->operations = 0;
	told->began_ns = now_ns();
}
