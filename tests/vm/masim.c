/*
 * masim: runs a configuration of masim, the memory access simulator of DAMON's author, and prints
 * how fast that was.
 *
 *   masim CONFIG TIMES SECONDS      run it, with all regions TIMES as large, a whole number
 *   masim CONFIG                    print what was read: regions, phases and patterns
 *
 * A configuration is text. Lines that begin with # are comments. First come the regions, one a line:
 * `NAME, BYTES`. After an empty line come the phases, with an empty line between them: a line with a
 * name, a line with milliseconds, and the patterns, one a line: `REGION, RANDOM, STRIDE, WEIGHT`, and
 * `, ro`, `, wo` or `, rw` if wanted (wo if not). RANDOM is 0 or 1, STRIDE is in bytes.
 *
 * An operation chooses a pattern of the phase by weight, and makes 256 accesses of it: the next ones
 * in steps of STRIDE, or any at random. After the last phase the second one begins again, because
 * the first one only sets regions up (DAMON's own scenarios have such a phase).
 *
 * It prints one line `filled BEGAN ENDED`, then a line for each second (seconds.h).
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "seconds.h"

#define NAME_BYTES 64
#define LINE_BYTES 256
#define REGIONS_MAX 64
#define PHASES_MAX 256
#define PATTERNS_MAX 64
#define ACCESSES 256
#define PAGE 4096UL
#define NS_PER_MS 1000000L

struct region {
	char name[NAME_BYTES];
	size_t bytes, next;
	volatile char *start;
};

struct pattern {
	unsigned region, weight;
	bool random, reads, writes;
	size_t stride;
};

struct phase {
	char name[NAME_BYTES];
	long ms;
	unsigned nr_patterns, weights;
	struct pattern patterns[PATTERNS_MAX];
};

static struct region regions[REGIONS_MAX];
static struct phase phases[PHASES_MAX];
static unsigned nr_regions, nr_phases, line_number;
static const char *path;
static uint64_t seed = 88172645463325252ULL;

static void wrong(const char *text, const char *expected)
{
	fprintf(stderr, "masim: %s:%u: '%s', expected %s\n", path, line_number, text, expected);
	exit(2);
}

static uint64_t drawn(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* Read the next line that is no comment, without its end. False at the end of the file. */
static bool next_line(FILE *file, char *line)
{
	do {
		if (!fgets(line, LINE_BYTES, file))
			return false;
		line_number++;
		line[strcspn(line, "\r\n")] = '\0';
	} while (line[0] == '#');
	return true;
}

static void add_region(const char *line)
{
	struct region *region = &regions[nr_regions];
	int end = 0;

	if (nr_regions == REGIONS_MAX)
		wrong(line, "at most 64 regions");
	if (sscanf(line, " %63[^, ] , %zu %n", region->name, &region->bytes, &end) != 2 || line[end] ||
	    region->bytes < PAGE)
		wrong(line, "NAME, BYTES with at least a page");
	nr_regions++;
}

static void add_pattern(struct phase *phase, const char *line)
{
	struct pattern *pattern = &phase->patterns[phase->nr_patterns];
	char name[NAME_BYTES], mode[NAME_BYTES] = "wo";
	unsigned random;
	int end = 0, fields;

	if (phase->nr_patterns == PATTERNS_MAX)
		wrong(line, "at most 64 patterns in a phase");
	fields = sscanf(line, " %63[^, ] , %u , %zu , %u %n, %63s %n", name, &random, &pattern->stride,
			&pattern->weight, &end, mode, &end);
	if (fields < 4 || line[end] || random > 1 || !pattern->stride ||
	    (strcmp(mode, "ro") && strcmp(mode, "wo") && strcmp(mode, "rw")))
		wrong(line, "REGION, 0 or 1, STRIDE, WEIGHT and perhaps ro, wo or rw");
	for (pattern->region = 0; pattern->region < nr_regions; pattern->region++)
		if (!strcmp(regions[pattern->region].name, name))
			break;
	if (pattern->region == nr_regions)
		wrong(name, "the name of a region");
	pattern->random = random;
	pattern->reads = mode[0] == 'r';
	pattern->writes = strcmp(mode, "ro") != 0;
	phase->weights += pattern->weight;
	phase->nr_patterns++;
}

static void add_phase(FILE *file, char *line)
{
	struct phase *phase = &phases[nr_phases];
	char *end;

	if (nr_phases == PHASES_MAX)
		wrong(line, "at most 256 phases");
	snprintf(phase->name, sizeof(phase->name), "%.63s", line);
	if (!next_line(file, line))
		wrong(phase->name, "a line with milliseconds after the name of a phase");
	phase->ms = strtol(line, &end, 10);
	if (*end || phase->ms <= 0)
		wrong(line, "milliseconds");
	while (next_line(file, line) && line[0])
		add_pattern(phase, line);
	if (!phase->weights)
		wrong(phase->name, "a phase with a pattern that has a weight");
	nr_phases++;
}

static void read_config(void)
{
	FILE *file = fopen(path, "r");
	char line[LINE_BYTES];

	if (!file) {
		fprintf(stderr, "masim: %s: %s\n", path, strerror(errno));
		exit(2);
	}
	while (next_line(file, line) && (line[0] || !nr_regions))
		if (line[0])
			add_region(line);
	while (next_line(file, line))
		if (line[0])
			add_phase(file, line);
	fclose(file);
	if (!nr_phases)
		wrong("", "a phase");
}

static void print_config(void)
{
	for (unsigned i = 0; i < nr_regions; i++)
		printf("region %s %zu\n", regions[i].name, regions[i].bytes);
	for (unsigned i = 0; i < nr_phases; i++) {
		printf("phase %ld %s\n", phases[i].ms, phases[i].name);
		for (unsigned k = 0; k < phases[i].nr_patterns; k++) {
			const struct pattern *one = &phases[i].patterns[k];

			printf("pattern %s %s %zu %u %s%s\n", regions[one->region].name,
			       one->random ? "random" : "in order", one->stride, one->weight,
			       one->reads ? "r" : "", one->writes ? "w" : "");
		}
	}
}

static void operate(const struct phase *phase)
{
	uint64_t left = drawn() % phase->weights;
	const struct pattern *pattern = phase->patterns;
	struct region *region;

	for (; left >= pattern->weight; pattern++)
		left -= pattern->weight;
	region = &regions[pattern->region];
	for (unsigned i = 0; i < ACCESSES; i++) {
		size_t at = pattern->random ? drawn() % region->bytes : region->next;

		if (pattern->reads)
			(void)region->start[at];
		if (pattern->writes)
			region->start[at] = 1;
		if (!pattern->random)
			region->next = (at + pattern->stride) % region->bytes;
	}
}

static void run(unsigned seconds)
{
	struct seconds told = seconds_begun();
	unsigned number = 0;
	long phase_began_ns = told.began_ns;

	while (told.number < seconds) {
		long before_ns = now_ns(), after_ns;

		if (before_ns - phase_began_ns >= phases[number].ms * NS_PER_MS) {
			number = number + 1 < nr_phases ? number + 1 : nr_phases > 1;
			phase_began_ns = before_ns;
		}
		operate(&phases[number]);
		after_ns = now_ns();
		seconds_add(&told, after_ns - before_ns, after_ns);
	}
}

int main(int argc, char **argv)
{
	long began_ns = now_ns();

	if (argc != 2 && argc != 4) {
		fprintf(stderr, "masim CONFIG [TIMES SECONDS]\n");
		return 2;
	}
	path = argv[1];
	read_config();
	if (argc == 2) {
		print_config();
		return 0;
	}
	map_marks();
	for (unsigned i = 0; i < nr_regions; i++) {
		regions[i].bytes *= (size_t)atoi(argv[2]);
		regions[i].start = mmap(NULL, regions[i].bytes, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (regions[i].start == MAP_FAILED) {
			perror("masim: mmap");
			return 1;
		}
		/* Small pages, so that heat is where the pattern says it is. */
		madvise((void *)regions[i].start, regions[i].bytes, MADV_NOHUGEPAGE);
		for (size_t at = 0; at < regions[i].bytes; at += PAGE)
			regions[i].start[at] = 1;
	}
	printf("filled %ld %ld\n", began_ns, now_ns());
	fflush(stdout);
	run((unsigned)atoi(argv[3]));
	return 0;
}
