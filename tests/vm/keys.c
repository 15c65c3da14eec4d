/*
 * keys: fills a key-value server, then reads its keys by Zipf's law, and prints how fast that was.
 *
 *   keys PROTOCOL SOCKET KEYS VALUE_BYTES THETA CONNECTIONS SECONDS
 *
 * PROTOCOL is redis or memcached, SOCKET the path of the server's Unix socket. Each connection has
 * one request under way. It prints these lines, with all times in ns of the monotonic clock:
 *
 *   filled BEGAN ENDED                           when the server had all KEYS
 *   second BEGAN ENDED OPERATIONS P50 P99        once a second from then on, SECONDS times
 *
 * Rank r is read in proportion to 1 / r^THETA. Ranks are permuted, so that keys that are read often
 * lie anywhere among the others. Each reply is checked. It needs no library but the C library.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000L
/* A server that does not answer for this many seconds never will. */
#define PATIENCE_S 60
/* The number of requests that are sent at once while the server is filled. */
#define BATCH 32
#define CONNECTIONS_MAX 64
#define VALUE_BYTES_MAX 65536
/* The size of a request or a reply without its value. */
#define FRAME_BYTES_MAX 128
/* Latencies are counted in 16 steps for each power of two, so they are known within 6 %. */
#define STEP_BITS 4
#define STEPS (64 << STEP_BITS)
/* The plugin slow.c writes its counters when a program touches a line of this page. */
#define MARKS 0x6d61726b0000UL
#define MARKS_BYTES 4096UL
#define LINE_BYTES 64UL

struct connection {
	int fd;
	uint32_t key;
	size_t got;
	long sent_ns;
	char *reply;
};

static bool redis;
static uint32_t keys;
static size_t value_bytes;
static char *wanted; /* a whole reply, which is the same for all keys except for the digits */
static size_t wanted_bytes, value_at;
static uint64_t seed = 88172645463325252ULL;

static void die(const char *what)
{
	fprintf(stderr, "keys: %s: %s\n", what, errno ? strerror(errno) : "not as expected");
	exit(1);
}

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static double uniform(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (double)(seed >> 11) / 9007199254740992.0;
}

/*
 * Draws ranks by Zipf's law, from 0 on. See Gray et al., "Quickly generating billion-record
 * synthetic databases", 1994: two sums are made once, and each rank then needs one pow().
 */
struct zipf {
	double theta, zeta, alpha, eta, second;
};

static struct zipf zipf_of(double theta)
{
	struct zipf zipf = { .theta = theta, .alpha = 1 / (1 - theta) };

	for (uint32_t rank = 1; rank <= keys; rank++)
		zipf.zeta += pow(rank, -theta);
	zipf.second = 1 + pow(0.5, theta);
	zipf.eta = (1 - pow(2.0 / keys, 1 - theta)) / (1 - zipf.second / zipf.zeta);
	return zipf;
}

static uint32_t rank_of(const struct zipf *zipf)
{
	double u = uniform(), uz = u * zipf->zeta;
	uint32_t rank;

	if (uz < 1)
		return 0;
	if (uz < zipf->second)
		return 1;
	rank = (uint32_t)(keys * pow(zipf->eta * u - zipf->eta + 1, zipf->alpha));
	return rank < keys ? rank : keys - 1;
}

/* Permute all keys by four Feistel rounds. A result beyond the last key is permuted once more. */
static uint32_t permuted(uint32_t number)
{
	unsigned half = 1;

	while (1ULL << (2 * half) < keys)
		half++;
	do {
		uint32_t mask = (1U << half) - 1, left = number >> half, right = number & mask;

		for (uint32_t round = 1; round <= 4; round++) {
			uint32_t mixed = (right + round * 0x9e3779b9U) * 0x85ebca6bU;
			uint32_t next = left ^ ((mixed ^ mixed >> 15) & mask);

			left = right;
			right = next;
		}
		number = left << half | right;
	} while (number >= keys);
	return number;
}

static int connected(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = PATIENCE_S };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (strlen(path) >= sizeof(address.sun_path))
		die(path);
	strcpy(address.sun_path, path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		die(path);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	return fd;
}

static void written(int fd, const char *bytes, size_t count)
{
	while (count) {
		ssize_t sent = write(fd, bytes, count);

		if (sent <= 0)
			die("write");
		bytes += sent;
		count -= (size_t)sent;
	}
}

static void read_all(int fd, char *bytes, size_t count)
{
	while (count) {
		ssize_t got = read(fd, bytes, count);

		if (got <= 0)
			die("read");
		bytes += got;
		count -= (size_t)got;
	}
}

static size_t put_set(char *at, uint32_t key)
{
	int head = redis ? sprintf(at, "*3\r\n$3\r\nSET\r\n$12\r\nkey:%08u\r\n$%zu\r\n", key, value_bytes) :
			   sprintf(at, "set key:%08u 0 0 %zu\r\n", key, value_bytes);

	char digits[16];

	snprintf(digits, sizeof(digits), "%08u", key);
	memset(at + head, 'v', value_bytes);
	memcpy(at + head, digits, 8);
	memcpy(at + head + value_bytes, "\r\n", 2);
	return (size_t)head + value_bytes + 2;
}

static int put_get(char *at, uint32_t key)
{
	return redis ? sprintf(at, "*2\r\n$3\r\nGET\r\n$12\r\nkey:%08u\r\n", key) :
		       sprintf(at, "get key:%08u\r\n", key);
}

static void fill(int fd)
{
	const char *stored = redis ? "+OK\r\n" : "STORED\r\n";
	size_t length = strlen(stored);
	char *batch = malloc(BATCH * (value_bytes + FRAME_BYTES_MAX)), replies[BATCH * 8 + 1];

	if (!batch)
		die("malloc");
	for (uint32_t key = 0; key < keys;) {
		size_t bytes = 0, count = 0;

		for (; count < BATCH && key < keys; count++)
			bytes += put_set(batch + bytes, key++);
		written(fd, batch, bytes);
		read_all(fd, replies, count * length);
		replies[count * length] = '\0';
		for (size_t i = 0; i < count; i++)
			if (memcmp(replies + i * length, stored, length))
				die(strtok(replies, "\r\n"));
	}
	free(batch);
}

/* Make the reply to compare with. The first eight bytes of a value are its key. */
static void expect(void)
{
	size_t head, tail;

	wanted = calloc(1, value_bytes + FRAME_BYTES_MAX);
	if (!wanted)
		die("malloc");
	head = (size_t)(redis ? sprintf(wanted, "$%zu\r\n", value_bytes) :
				sprintf(wanted, "VALUE key:%08u 0 %zu\r\n", 0, value_bytes));
	value_at = head;
	memset(wanted + head, 'v', value_bytes);
	tail = (size_t)sprintf(wanted + head + value_bytes, redis ? "\r\n" : "\r\nEND\r\n");
	wanted_bytes = head + value_bytes + tail;
}

/* True if a reply has the right beginning, the right key, and the right end. */
static bool right(const struct connection *one)
{
	size_t end = value_at + value_bytes;
	char key[16];

	snprintf(key, sizeof(key), "%08u", one->key);
	return one->reply[0] == wanted[0] && !memcmp(one->reply + value_at, key, 8) &&
	       !memcmp(one->reply + end, wanted + end, wanted_bytes - end);
}

static void ask(struct connection *one, const struct zipf *zipf)
{
	char request[FRAME_BYTES_MAX];

	one->key = permuted(rank_of(zipf));
	one->got = 0;
	one->sent_ns = now_ns();
	written(one->fd, request, (size_t)put_get(request, one->key));
}

/* True if the whole reply is there. */
static bool answered(struct connection *one)
{
	ssize_t got = read(one->fd, one->reply + one->got, wanted_bytes - one->got);

	if (got <= 0)
		die("read");
	one->got += (size_t)got;
	/* An error is shorter than a reply, so a wait for the rest would never end. */
	if (one->reply[0] != wanted[0])
		die(strtok(one->reply, "\r\n"));
	return one->got == wanted_bytes;
}

static unsigned step_of(long ns)
{
	uint64_t value = ns > 1 << STEP_BITS ? (uint64_t)ns : 1 << STEP_BITS;
	unsigned power = 63 - (unsigned)__builtin_clzll(value);

	return power << STEP_BITS | (value >> (power - STEP_BITS) & ((1 << STEP_BITS) - 1));
}

/* Return the latency that this share of the operations does not exceed: the middle of its step. */
static long quantile(const uint64_t *steps, uint64_t operations, double share)
{
	uint64_t seen = 0;

	for (unsigned step = 0; step < STEPS; step++) {
		seen += steps[step];
		if (seen && (double)seen >= share * (double)operations) {
			unsigned power = step >> STEP_BITS;
			uint64_t base = (1ULL << STEP_BITS) + (step & ((1 << STEP_BITS) - 1));

			return (long)(((2 * base + 1) << (power - STEP_BITS)) / 2);
		}
	}
	return 0;
}

static void mark(unsigned number)
{
	*(volatile char *)(MARKS + number * LINE_BYTES % MARKS_BYTES) = 1;
}

static void serve_second(struct connection *all, unsigned count, const struct zipf *zipf)
{
	static uint64_t steps[STEPS];
	struct pollfd polls[CONNECTIONS_MAX];
	uint64_t operations = 0;
	long began_ns = now_ns(), ended_ns = began_ns;

	memset(steps, 0, sizeof(steps));
	for (unsigned i = 0; i < count; i++)
		polls[i] = (struct pollfd){ .fd = all[i].fd, .events = POLLIN };
	while (ended_ns - began_ns < NS_PER_S) {
		if (poll(polls, count, PATIENCE_S * 1000) <= 0)
			die("poll");
		for (unsigned i = 0; i < count; i++) {
			if (!polls[i].revents || !answered(&all[i]))
				continue;
			ended_ns = now_ns();
			if (!right(&all[i]))
				die("a reply");
			steps[step_of(ended_ns - all[i].sent_ns)]++;
			operations++;
			ask(&all[i], zipf);
		}
	}
	printf("second %ld %ld %lu %ld %ld\n", began_ns, ended_ns, operations,
	       quantile(steps, operations, 0.5), quantile(steps, operations, 0.99));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static struct connection all[CONNECTIONS_MAX];
	unsigned count, seconds;
	struct zipf zipf;
	long began_ns;

	if (argc != 8) {
		fprintf(stderr, "keys PROTOCOL SOCKET KEYS VALUE_BYTES THETA CONNECTIONS SECONDS\n");
		return 2;
	}
	redis = !strcmp(argv[1], "redis");
	keys = (uint32_t)atoi(argv[3]);
	value_bytes = (size_t)atoi(argv[4]);
	count = (unsigned)atoi(argv[6]);
	seconds = (unsigned)atoi(argv[7]);
	if (keys < 2 || keys > 99999999 || value_bytes < 16 || value_bytes > VALUE_BYTES_MAX ||
	    !count || count > CONNECTIONS_MAX || !(atof(argv[5]) > 0 && atof(argv[5]) < 1)) {
		fprintf(stderr, "keys: 2 to 99999999 keys, 16 to %d bytes, 0 < theta < 1, 1 to %d connections\n",
			VALUE_BYTES_MAX, CONNECTIONS_MAX);
		return 2;
	}
	if (mmap((void *)MARKS, MARKS_BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != (void *)MARKS)
		die("mmap");
	for (unsigned i = 0; i < count; i++)
		all[i].fd = connected(argv[2]);
	began_ns = now_ns();
	fill(all[0].fd);
	printf("filled %ld %ld\n", began_ns, now_ns());
	fflush(stdout);
	expect();
	zipf = zipf_of(atof(argv[5]));
	for (unsigned i = 0; i < count; i++) {
		all[i].reply = calloc(1, wanted_bytes + 1);
		if (!all[i].reply)
			die("malloc");
		ask(&all[i], &zipf);
	}
	mark(0);
	for (unsigned second = 1; second <= seconds; second++) {
		serve_second(all, count, &zipf);
		mark(second);
	}
	return 0;
}
