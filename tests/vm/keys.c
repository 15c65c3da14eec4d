/*
 * keys: fills a key-value server, then reads its keys by Zipf's law, and prints how fast that was.
 *
 *   keys PROTOCOL SOCKET KEYS VALUE_BYTES THETA CONNECTIONS DEPTH SECONDS
 *
 * PROTOCOL is redis or memcached, SOCKET the path of the server's Unix socket. A connection sends
 * DEPTH requests at once, and the next ones when it has all replies. The latency of a request is the
 * time from when it was sent to the end of its reply.
 *
 * It prints a line `filled BEGAN ENDED`, in ns of the monotonic clock, when the server has all KEYS,
 * and then a line for each of SECONDS seconds (seconds.h).
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
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "seconds.h"

/* A server that does not answer for this many seconds never will. */
#define PATIENCE_S 60
#define FILL_PATIENCE_S 1800
/* The number of requests that are sent at once while the server is filled. */
#define BATCH 32
#define CONNECTIONS_MAX 64
#define DEPTH_MAX 64
#define VALUE_BYTES_MAX 65536
/* The size of a request or a reply without its value. */
#define FRAME_BYTES_MAX 128

struct connection {
	int fd;
	uint32_t keys[DEPTH_MAX];
	unsigned answered; /* the requests of this batch whose replies are there */
	size_t got; /* bytes of the batch's replies */
	long sent_ns;
	char *replies;
};

static bool redis;
static uint32_t keys;
static unsigned depth;
static size_t value_bytes;
static char *wanted; /* a whole reply, which is the same for all keys except for the digits */
static size_t wanted_bytes, value_at;
static uint64_t seed = 88172645463325252ULL;

static void die(const char *what)
{
	fprintf(stderr, "keys: %s: %s\n", what, errno ? strerror(errno) : "not as expected");
	exit(1);
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

/* Write a request to memcached to set key 0. Its length is the same for all keys. */
static size_t put_set(char *at)
{
	int head = sprintf(at, "set key:%08u 0 0 %zu\r\n", 0, value_bytes);

	memset(at + head, 'v', value_bytes);
	memcpy(at + head, "00000000", 8);
	memcpy(at + head + value_bytes, "\r\n", 2);
	return (size_t)head + value_bytes + 2;
}

/*
 * Let redis make all keys by itself, which is much faster than one request each. Its key N is
 * "key:N" and begins with "value:N".
 */
static void populate(int fd)
{
	struct timeval patience = { .tv_sec = FILL_PATIENCE_S };
	char request[FRAME_BYTES_MAX], reply[6] = "";

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	written(fd, request, (size_t)snprintf(request, sizeof(request), "DEBUG POPULATE %u key %zu\r\n", keys,
					      value_bytes));
	read_all(fd, reply, strlen("+OK\r\n"));
	if (strcmp(reply, "+OK\r\n"))
		die(reply);
}

/* Make it a request for another key: the digits stand in the key and at the start of the value. */
static void set_key(char *at, size_t value, uint32_t key)
{
	char digits[16];

	snprintf(digits, sizeof(digits), "%08u", key);
	memcpy(strstr(at, "key:") + 4, digits, 8);
	memcpy(at + value, digits, 8);
}

static int put_get(char *at, uint32_t key)
{
	/* redis takes a line as well as its own format. */
	return redis ? sprintf(at, "GET key:%u\r\n", key) : sprintf(at, "get key:%08u\r\n", key);
}

static void expect_stored(int fd, size_t count)
{
	const char *stored = "STORED\r\n";
	size_t length = strlen(stored);
	char replies[BATCH * 8 + 1];

	read_all(fd, replies, count * length);
	replies[count * length] = '\0';
	for (size_t i = 0; i < count; i++)
		if (memcmp(replies + i * length, stored, length))
			die(strtok(replies, "\r\n"));
}

/*
 * Set all keys of memcached. A batch is sent before the replies to the one before are read, so that
 * both sides work.
 */
static void fill(int fd)
{
	char *batch = malloc(BATCH * (value_bytes + FRAME_BYTES_MAX));
	size_t length = 0, before = 0;

	if (!batch)
		die("malloc");
	for (size_t i = 0; i < BATCH; i++)
		length = put_set(batch + i * length);
	for (uint32_t key = 0; key < keys;) {
		size_t count = 0;

		for (; count < BATCH && key < keys; count++)
			set_key(batch + count * length, length - value_bytes - 2, key++);
		written(fd, batch, count * length);
		expect_stored(fd, before);
		before = count;
	}
	expect_stored(fd, before);
	free(batch);
}

/* Make the reply to compare with. A value begins with its key. */
static void expect(void)
{
	size_t head, tail;

	wanted = calloc(1, value_bytes + FRAME_BYTES_MAX);
	if (!wanted)
		die("malloc");
	head = (size_t)(redis ? sprintf(wanted, "$%zu\r\n", value_bytes) :
				sprintf(wanted, "VALUE key:%08u 0 %zu\r\n", 0, value_bytes));
	value_at = head;
	tail = (size_t)sprintf(wanted + head + value_bytes, redis ? "\r\n" : "\r\nEND\r\n");
	wanted_bytes = head + value_bytes + tail;
}

/* True if a reply has the right beginning, the right key, and the right end. */
static bool right(const char *reply, uint32_t number)
{
	size_t end = value_at + value_bytes;
	char key[32];
	int length = snprintf(key, sizeof(key), redis ? "value:%u" : "%08u", number);

	return reply[0] == wanted[0] && !memcmp(reply + value_at, key, (size_t)length) &&
	       !memcmp(reply + end, wanted + end, wanted_bytes - end);
}

/* Send a batch of requests. */
static void ask(struct connection *one, const struct zipf *zipf)
{
	char requests[DEPTH_MAX * FRAME_BYTES_MAX];
	size_t length = 0;

	for (unsigned i = 0; i < depth; i++) {
		one->keys[i] = permuted(rank_of(zipf));
		length += (size_t)put_get(requests + length, one->keys[i]);
	}
	one->answered = 0;
	one->got = 0;
	one->sent_ns = now_ns();
	written(one->fd, requests, length);
}

/* Read what is there of the replies to a batch, and count those that are whole now. */
static void take(struct connection *one, struct seconds *told)
{
	ssize_t got = read(one->fd, one->replies + one->got, depth * wanted_bytes - one->got);
	long ended_ns = now_ns();

	if (got <= 0)
		die("read");
	one->got += (size_t)got;
	for (; one->answered < depth; one->answered++) {
		char *reply = one->replies + one->answered * wanted_bytes;

		if (reply >= one->replies + one->got)
			return;
		/* An error is shorter than a reply, so a wait for the rest would never end. */
		if (reply[0] != wanted[0])
			die(strtok(reply, "\r\n"));
		if (reply + wanted_bytes > one->replies + one->got)
			return;
		if (!right(reply, one->keys[one->answered]))
			die("a reply");
		seconds_add(told, ended_ns - one->sent_ns, ended_ns);
	}
}

/* Answer the replies to each batch with the next one, until so many seconds are over. */
static void serve(struct connection *all, unsigned count, const struct zipf *zipf, unsigned seconds)
{
	struct seconds told = seconds_begun();
	struct pollfd polls[CONNECTIONS_MAX];

	for (unsigned i = 0; i < count; i++)
		polls[i] = (struct pollfd){ .fd = all[i].fd, .events = POLLIN };
	while (told.number < seconds) {
		if (poll(polls, count, PATIENCE_S * 1000) <= 0)
			die("poll");
		for (unsigned i = 0; i < count; i++) {
			if (!polls[i].revents)
				continue;
			take(&all[i], &told);
			if (all[i].answered == depth)
				ask(&all[i], zipf);
		}
	}
}

int main(int argc, char **argv)
{
	static struct connection all[CONNECTIONS_MAX];
	unsigned count, seconds;
	struct zipf zipf;
	long began_ns;

	if (argc != 9) {
		fprintf(stderr,
			"keys PROTOCOL SOCKET KEYS VALUE_BYTES THETA CONNECTIONS DEPTH SECONDS\n");
		return 2;
	}
	redis = !strcmp(argv[1], "redis");
	keys = (uint32_t)atoi(argv[3]);
	value_bytes = (size_t)atoi(argv[4]);
	count = (unsigned)atoi(argv[6]);
	depth = (unsigned)atoi(argv[7]);
	seconds = (unsigned)atoi(argv[8]);
	if (keys < 2 || keys > 99999999 || value_bytes < 16 || value_bytes > VALUE_BYTES_MAX ||
	    !count || count > CONNECTIONS_MAX || !depth || depth > DEPTH_MAX ||
	    !(atof(argv[5]) > 0 && atof(argv[5]) < 1)) {
		fprintf(stderr,
			"keys: 2 to 99999999 keys, 16 to %d bytes, 0 < theta < 1, 1 to %d connections, "
			"1 to %d requests at once\n",
			VALUE_BYTES_MAX, CONNECTIONS_MAX, DEPTH_MAX);
		return 2;
	}
	map_marks();
	for (unsigned i = 0; i < count; i++)
		all[i].fd = connected(argv[2]);
	began_ns = now_ns();
	if (redis)
		populate(all[0].fd);
	else
		fill(all[0].fd);
	printf("filled %ld %ld\n", began_ns, now_ns());
	fflush(stdout);
	expect();
	zipf = zipf_of(atof(argv[5]));
	for (unsigned i = 0; i < count; i++) {
		all[i].replies = calloc(depth, wanted_bytes + 1);
		if (!all[i].replies)
			die("malloc");
		ask(&all[i], &zipf);
	}
	serve(all, count, &zipf, seconds);
	return 0;
}
