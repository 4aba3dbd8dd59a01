/*
 * ZooKeeper's C client, once through what programs use: connect, an ephemeral sequential node, a
 * watch, a multi, close.
 *
 * usage: c_client HOSTS
 *
 * It prints "ok", waits for "go" and exits with status 0. Any error is one line and status 1.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zookeeper/zookeeper.h>

enum { PATIENCE = 60, TIMEOUT = 10000 }; /* seconds; ms of the session */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int connected, changed;

static void fail(const char *what, int code) {
    fprintf(stderr, "%s: %d (%s)\n", what, code, zerror(code));
    exit(1);
}

static void must(const char *what, int code) {
    if (code != ZOK) {
        fail(what, code);
    }
}

static void hear(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh;
    (void)context;
    pthread_mutex_lock(&lock);
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE) {
        connected++;
    } else if (type == ZOO_CHANGED_EVENT && strcmp(path, "/c") == 0) {
        changed++;
    } else {
        fprintf(stderr, "event of type %d, state %d, path %s\n", type, state, path);
        exit(1);
    }
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
}

/* await waits until *count is 1. */
static void await(const char *what, const int *count) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE;
    pthread_mutex_lock(&lock);
    while (*count == 0) {
        if (pthread_cond_timedwait(&more, &lock, &end) != 0) {
            fail(what, ZOPERATIONTIMEOUT);
        }
    }
    pthread_mutex_unlock(&lock);
}

static void multi(zhandle_t *zh) {
    char path[64];
    struct Stat stat;
    zoo_op_t ops[4];
    zoo_op_result_t results[4];
    zoo_create_op_init(&ops[0], "/c/m", "1", 1, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof path);
    zoo_check_op_init(&ops[1], "/c/m", 0);
    zoo_set_op_init(&ops[2], "/c/m", "2", 1, 0, &stat);
    zoo_delete_op_init(&ops[3], "/c/m", 1);
    must("multi", zoo_multi(zh, 4, ops, results));
    if (strcmp(path, "/c/m") != 0 || stat.version != 1) {
        fail(path, stat.version);
    }
    zoo_check_op_init(&ops[1], "/c/m", 7);
    if (zoo_multi(zh, 2, ops, results) != ZBADVERSION || results[0].err != ZOK || results[1].err != ZBADVERSION) {
        fail("multi with a wrong version", results[1].err);
    }
}

int main(int argc, char **argv) {
    char path[64], data[8], line[8];
    int len = sizeof data;
    struct Stat stat;
    zhandle_t *zh;
    if (argc != 2) {
        return 2;
    }
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zh = zookeeper_init(argv[1], hear, TIMEOUT, NULL, NULL, 0);
    if (zh == NULL) {
        fail("zookeeper_init", ZSYSTEMERROR);
    }
    await("connected", &connected);

    must("create", zoo_create(zh, "/c", "x", 1, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof path));
    must("create e", zoo_create(zh, "/c/e-", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL | ZOO_SEQUENCE, path, sizeof path));
    if (strcmp(path, "/c/e-0000000000") != 0) {
        fail(path, 0);
    }
    must("exists", zoo_exists(zh, path, 0, &stat));
    if (stat.ephemeralOwner != zoo_client_id(zh)->client_id) {
        fail("owner", 0);
    }

    must("wget", zoo_wget(zh, "/c", hear, NULL, data, &len, &stat));
    must("set", zoo_set(zh, "/c", "y", 1, stat.version));
    await("the event", &changed);
    multi(zh);
    must("close", zookeeper_close(zh));

    puts("ok");
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != NULL && strcmp(line, "go\n") == 0 ? 0 : 1;
}
