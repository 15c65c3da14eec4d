/*
 * slow: a QEMU plugin that makes memory as slow as a machine's figures say.
 *
 * gcc -O2 -shared -fPIC -o slow.so slow.c; tests/vm/slow.py makes its arguments:
 *
 *   cpus=N                        virtual processors
 *   cache=BYTES                   of each processor's last-level cache: a power of two
 *   node=LATENCY_PS:LINE_PS       how long a miss waits, and how long a line occupies the node's
 *                                 bus; the first one is node 0 here, and so on
 *   range=NODE:START:END          physical addresses of a node, which may have several
 *   kernel=START:END              addresses of kernel code that waits as user code does
 *   counts=PATH                   a file for the counters of each mark
 *
 * A processor touches a line that is not in its cache. It then waits until the latency of the
 * line's node has passed, and the node's bus has carried the line. All processors share the bus.
 * A line next to one that was fetched a moment ago counts as prefetched. It waits for the bus only,
 * which began to carry it when the other line had arrived.
 *
 * The plugin waits in a loop that reads the host's time stamp counter, so the guest's own clocks
 * show the wait. If the guest has more processors than the host, another one may run meanwhile. So
 * more of them can wait for memory at a time than the host has processors. Kernel code does not wait, except in the given ranges. Before a kernel has started
 * nothing waits.
 *
 * Each miss is counted for its node. A program in the guest marks a moment by touching the next
 * line of the page MARKS, which it has mapped: the plugin then writes a line to the file, with the
 * number of the line that was touched, the misses of each node so far, and for how long the emulator
 * has waited for processors of the host.
 *
 * The page after it switches how memory waits, for all processors, from now on. Its line 0: as the
 * arguments say, which is how it begins. Line 1: all nodes as the fastest one, to compare with. Line
 * 2: not at all, so that a program is filled with data sooner. Nothing is counted meanwhile.
 *
 * No Debian package has QEMU's header for plugins, so this file declares what it uses. These names
 * and types are part of version 4 of the interface (QEMU 9.2 and later).
 */
#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
typedef struct qemu_info_t qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };
typedef void (*tb_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*mem_cb)(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_cb cb);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, mem_cb cb,
				      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw,
				      void *data);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *address);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address);

EXPORT int qemu_plugin_version = 4;

#define LINE_SHIFT 6
/* User code lies below this power of two, the kernel's above it. */
#define USER_SHIFT 47
#define NODES_MAX 16
#define RANGES_MAX 32
/* Eight ways. A direct-mapped cache would miss a third of a set of half its size. */
#define WAYS 8
/* The number of streams that a processor's prefetcher follows at a time. */
#define STREAMS 8
#define CALIBRATION_NS 20000000L
/* The page whose lines are marks. seconds.h has the same. No program uses this address by chance. */
#define MARKS 0x6d61726b0000UL
#define MARKS_BYTES 4096
#define MODES (MARKS + MARKS_BYTES)

/* The lines of the page MODES. bench/waiting.py has the same. */
enum mode { MODE_SLOW, MODE_EVEN, MODE_OFF, NR_MODES };

struct node {
	uint64_t latency, line; /* in ticks of the time stamp counter */
	uint64_t free;          /* when the bus will have carried all lines booked so far */
} __attribute__((aligned(64)));

struct range {
	uint64_t start, end;
	unsigned node;
};

struct stream {
	uint64_t line; /* virtual, because a stream goes on after the end of a page */
	uint64_t when;
};

struct cpu {
	uint64_t last, other; /* the virtual lines of the last touch, and of the last one elsewhere */
	uint32_t *tags; /* WAYS for each set: physical line + 1 */
	struct stream streams[STREAMS];
	unsigned next; /* the stream that is replaced next */
	uint64_t misses[NODES_MAX];
} __attribute__((aligned(64)));

static struct node nodes[NODES_MAX];
static struct range ranges[RANGES_MAX], kernel[RANGES_MAX];
static unsigned nr_nodes, nr_ranges, nr_kernel;
static struct cpu *cpus;
static uint64_t nr_cpus, cache_bytes, sets;
static uint64_t overshoot; /* ticks that a wait takes longer than it should */
static bool crowded; /* the guest has more processors than the host */
static bool kernel_began;
static enum mode mode;
static const struct node *fastest;
static FILE *counts;

static void wait_until(uint64_t ticks)
{
	while (__rdtsc() < ticks)
		if (crowded)
			sched_yield();
}

/* True if the line is in the cache. It is in the cache from now on in any case. */
static bool cached(struct cpu *cpu, uint64_t line)
{
	uint32_t *tags = cpu->tags + (line & (sets - 1)) * WAYS;
	uint32_t before = (uint32_t)line + 1, tag = before;

	/* The line used last comes first. It moves the others back, up to its old place. */
	for (unsigned way = 0; way < WAYS; way++) {
		uint32_t here = tags[way];

		tags[way] = before;
		if (here == tag)
			return true;
		before = here;
	}
	return false;
}

/* Return the stream that a miss belongs to, or a new stream that begins with this miss. */
static struct stream *stream_of(struct cpu *cpu, uint64_t line, bool *prefetched)
{
	for (unsigned i = 0; i < STREAMS; i++) {
		/* One line further, or one line back. */
		if (line + 1 - cpu->streams[i].line <= 2) {
			*prefetched = true;
			return &cpu->streams[i];
		}
	}
	*prefetched = false;
	return &cpu->streams[cpu->next++ % STREAMS];
}

/* Book the bus from `from` on, or from when it is free. Return when the line will have arrived. */
static uint64_t carried(struct node *node, uint64_t from, uint64_t takes)
{
	uint64_t old = __atomic_load_n(&node->free, __ATOMIC_RELAXED), done;

	do
		done = (old > from ? old : from) + takes;
	while (!__atomic_compare_exchange_n(&node->free, &old, done, true, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED));
	return done;
}

static void pay(struct cpu *cpu, struct node *node, uint64_t line)
{
	uint64_t now = __rdtsc(), until = now;
	bool prefetched;
	struct stream *stream = stream_of(cpu, line, &prefetched);
	const struct node *costs = mode == MODE_EVEN ? fastest : node;
	uint64_t arrives = carried(node, prefetched ? stream->when : now, costs->line);

	if (!prefetched)
		until += costs->latency;
	if (arrives > until)
		until = arrives;
	wait_until(until - overshoot);
	stream->line = line;
	stream->when = until > now ? until : now;
}

/*
 * Return for how long all threads of the emulator have waited for a processor of the host, in ns. It
 * is the second number of schedstat, and stays 0 on a host without that file.
 */
static unsigned long long waited_ns(void)
{
	DIR *threads = opendir("/proc/self/task");
	unsigned long long sum = 0, ran, waited;
	struct dirent *one;

	while (threads && (one = readdir(threads))) {
		char path[300];
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", one->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fscanf(file, "%llu %llu", &ran, &waited) == 2)
			sum += waited;
		fclose(file);
	}
	if (threads)
		closedir(threads);
	return sum;
}

/* Write the counters of all processors. Another processor may be changing its own just now. */
static void mark(uint64_t line)
{
	fprintf(counts, "%llu", (unsigned long long)line);
	for (unsigned node = 0; node < nr_nodes; node++) {
		uint64_t misses = 0;

		for (unsigned i = 0; i < nr_cpus; i++)
			misses += __atomic_load_n(&cpus[i].misses[node], __ATOMIC_RELAXED);
		fprintf(counts, " %llu", (unsigned long long)misses);
	}
	fprintf(counts, " %llu\n", waited_ns());
	fflush(counts);
}

static void touched(unsigned number, qemu_plugin_meminfo_t info, uint64_t vaddr, void *unused)
{
	struct cpu *cpu = &cpus[number];
	struct qemu_plugin_hwaddr *found;
	uint64_t address, line = vaddr >> LINE_SHIFT;
	bool again;

	(void)unused;
	if (line == cpu->last)
		return;
	/* A copy alternates between two lines, and code alternates between its stack and its data. */
	again = line == cpu->other;
	cpu->other = cpu->last;
	cpu->last = line;
	if (again)
		return;
	if (line - (MARKS >> LINE_SHIFT) < MARKS_BYTES >> LINE_SHIFT && counts)
		mark(line - (MARKS >> LINE_SHIFT));
	if (line - (MODES >> LINE_SHIFT) < NR_MODES)
		mode = (enum mode)(line - (MODES >> LINE_SHIFT));
	if (mode == MODE_OFF)
		return;
	found = qemu_plugin_get_hwaddr(info, vaddr);
	if (!found || qemu_plugin_hwaddr_is_io(found))
		return;
	address = qemu_plugin_hwaddr_phys_addr(found);
	if (cached(cpu, address >> LINE_SHIFT))
		return;
	for (unsigned i = 0; i < nr_ranges; i++) {
		if (address >= ranges[i].start && address < ranges[i].end) {
			cpu->misses[ranges[i].node]++;
			pay(cpu, &nodes[ranges[i].node], line);
			return;
		}
	}
}

static bool pays(uint64_t code)
{
	if (code >> USER_SHIFT == 0)
		return kernel_began;
	kernel_began = kernel_began || code >> (USER_SHIFT + 1) != 0;
	for (unsigned i = 0; i < nr_kernel; i++)
		if (code >= kernel[i].start && code < kernel[i].end)
			return true;
	return false;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	if (!pays(qemu_plugin_tb_vaddr(tb)))
		return;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++)
		qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), touched,
						 QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
}

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* Return the ticks of the time stamp counter per nanosecond. Measure the overshoot of a wait. */
static double calibrate(void)
{
	long began_ns = now_ns(), ns;
	uint64_t began = __rdtsc(), ticks;

	do
		ns = now_ns() - began_ns;
	while (ns < CALIBRATION_NS);
	ticks = __rdtsc() - began;
	overshoot = UINT64_MAX;
	for (unsigned batch = 0; batch < 100; batch++) {
		uint64_t start = __rdtsc(), took;

		for (unsigned i = 0; i < 100; i++)
			wait_until(__rdtsc() + 500);
		took = (__rdtsc() - start) / 100 - 500;
		if (took < overshoot)
			overshoot = took;
	}
	return (double)ticks / (double)ns;
}

static bool argument(const char *text, double ticks_per_ns)
{
	unsigned long long a, b, c;
	double per_ps = ticks_per_ns / 1000;

	if (sscanf(text, "cpus=%llu", &a) == 1) {
		nr_cpus = a;
	} else if (sscanf(text, "cache=%llu", &a) == 1) {
		cache_bytes = a;
	} else if (sscanf(text, "node=%llu:%llu", &a, &b) == 2 && nr_nodes < NODES_MAX) {
		nodes[nr_nodes].latency = (uint64_t)((double)a * per_ps + 0.5);
		nodes[nr_nodes++].line = (uint64_t)((double)b * per_ps + 0.5);
	} else if (sscanf(text, "range=%llu:%llu:%llu", &a, &b, &c) == 3 && nr_ranges < RANGES_MAX) {
		ranges[nr_ranges++] = (struct range){ b, c, (unsigned)a };
	} else if (sscanf(text, "kernel=%llu:%llu", &a, &b) == 2 && nr_kernel < RANGES_MAX) {
		kernel[nr_kernel++] = (struct range){ a, b, 0 };
	} else if (!strncmp(text, "counts=", strlen("counts="))) {
		counts = fopen(text + strlen("counts="), "w");
		if (!counts)
			perror(text);
		return counts;
	} else {
		fprintf(stderr, "slow: what is %s?\n", text);
		return false;
	}
	return true;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	double ticks_per_ns = calibrate();

	(void)info;
	for (int i = 0; i < argc; i++)
		if (!argument(argv[i], ticks_per_ns))
			return -1;
	crowded = nr_cpus > (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
	sets = (cache_bytes >> LINE_SHIFT) / WAYS;
	if (!nr_cpus || !sets || sets & (sets - 1)) {
		fprintf(stderr, "slow: cpus= and a power of two for cache= are needed\n");
		return -1;
	}
	for (unsigned i = 0; i < nr_ranges; i++) {
		if (ranges[i].node >= nr_nodes) {
			fprintf(stderr, "slow: a range of node %u, which is not there\n", ranges[i].node);
			return -1;
		}
	}
	fastest = &nodes[0];
	for (unsigned i = 1; i < nr_nodes; i++)
		if (nodes[i].latency < fastest->latency)
			fastest = &nodes[i];
	cpus = aligned_alloc(64, nr_cpus * sizeof(*cpus));
	if (!cpus)
		return -1;
	memset(cpus, 0, nr_cpus * sizeof(*cpus));
	for (unsigned i = 0; i < nr_cpus; i++) {
		cpus[i].tags = calloc(sets * WAYS, sizeof(uint32_t));
		if (!cpus[i].tags)
			return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
