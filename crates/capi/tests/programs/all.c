/* Calls every function in an empty directory, and compares what it does with stdio and memcmp. */
#define _DEFAULT_SOURCE

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <seekless.h>

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);       \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

/* Ends in the middle of a page, of a sector and of every block. */
enum { BYTES = (3 << 20) + 12345, THREADS = 6, LARGE = 40 << 20 };

static const char *directory;
static unsigned char data[BYTES];

/* The path of a name in the directory; the last eight stay valid. */
static const char *at(const char *name) {
    static _Thread_local char paths[8][4096];
    static _Thread_local unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, 4096, "%s/%s", directory, name);
    return path;
}

/* The oracle: whether a file holds these bytes and no others. */
static int holds(const char *path, const void *bytes, size_t length) {
    FILE *file = fopen(path, "rb");
    unsigned char *found = malloc(length + 1);
    CHECK(file != NULL && found != NULL);
    int equal = fread(found, 1, length + 1, file) == length && memcmp(found, bytes, length) == 0;
    free(found);
    fclose(file);
    return equal;
}

static void put(const char *path, const void *bytes, size_t length) {
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL && fwrite(bytes, 1, length, file) == length && fclose(file) == 0);
}

static seekless_result result;

/* Whether the last call succeeded, with a method of this beginning. */
static int by(seekless_status status, const char *method) {
    int is_right = status == SEEKLESS_STATUS_OK && result.status == SEEKLESS_STATUS_OK && result.path == NULL
        && result.error_number == 0 && strncmp(result.method, method, strlen(method)) == 0 && result.text[0] != '\0';
    if (!is_right) {
        fprintf(stderr, "%s: %s (%s)\n", method, result.text, result.method ? result.method : "none");
    }
    seekless_result_free(&result);
    return is_right;
}

/* Whether the last call failed, with this kind and number, about this path and with this in its text. */
static int failed(seekless_status status, seekless_status kind, int number, const char *path, const char *text) {
    int is_right = status == kind && result.status == kind && result.error_number == number
        && strstr(result.text, text) != NULL
        && (path == NULL || (result.path != NULL && strcmp(result.path, path) == 0))
        && result.bytes == 0 && result.verdict == SEEKLESS_VERDICT_NONE && result.method == NULL;
    if (!is_right) {
        fprintf(stderr, "status %u, number %d: %s (%s)\n", (unsigned)result.status, (int)result.error_number,
                result.text, result.path ? result.path : "no path");
    }
    seekless_result_free(&result);
    return is_right;
}

static void writing(void) {
    seekless_options options = {0};
    CHECK(by(seekless_write(at("file"), data, BYTES, NULL, &result), "write/"));
    CHECK(holds(at("file"), data, BYTES));
    CHECK(failed(seekless_write(at("file"), data, 1, NULL, &result), SEEKLESS_STATUS_SYSTEM, EEXIST, at("file"), "exists"));
    options.destination = SEEKLESS_DESTINATION_OVERWRITE;
    options.durability = SEEKLESS_DURABILITY_FSYNC;
    CHECK(seekless_write(at("file"), "short", 5, &options, &result) == SEEKLESS_STATUS_OK);
    CHECK(result.bytes == 5 && strstr(result.method, "fsync") != NULL && holds(at("file"), "short", 5));
    seekless_result_free(&result);
    options.durability = SEEKLESS_DURABILITY_WRITE_THROUGH;
    CHECK(failed(seekless_write(at("file"), data, 1, &options, &result), SEEKLESS_STATUS_INVALID, 0, NULL, "write-through"));
    options.method = "write/sync,block=64K";
    CHECK(by(seekless_write(at("file"), data, BYTES, &options, &result), "write/sync,block=64K,write-through"));
    options.durability = SEEKLESS_DURABILITY_FDATASYNC_EACH;
    CHECK(by(seekless_write(at("file"), data, 70000, &options, &result), "write/sync,block=64K,fdatasync-each"));
    CHECK(holds(at("file"), data, 70000));
    options.durability = 4;
    CHECK(failed(seekless_write(at("file"), data, 1, &options, &result), SEEKLESS_STATUS_INVALID, 0, NULL, "4 is not a durability"));
    options.durability = SEEKLESS_DURABILITY_NONE;
    options.destination = 2;
    CHECK(failed(seekless_write(at("file"), data, 1, &options, &result), SEEKLESS_STATUS_INVALID, 0, NULL, "destination"));
    CHECK(failed(seekless_write(at("no/file"), data, 1, NULL, &result), SEEKLESS_STATUS_SYSTEM, ENOENT, NULL, "no"));
    CHECK(failed(seekless_write(at("new"), NULL, 1, NULL, &result), SEEKLESS_STATUS_INVALID, 0, NULL, "NULL"));
    CHECK(by(seekless_write(at("empty"), NULL, 0, NULL, &result), "write/") && holds(at("empty"), "", 0));
}

static void where_it_may_not_write(void) {
    CHECK(mkdir(at("closed"), 0555) == 0);
    /* Root may write there, too. */
    int is_root = geteuid() == 0;
    CHECK(!is_root || seteuid(65534) == 0);
    seekless_status status = seekless_write(at("closed/file"), data, 1, NULL, &result);
    CHECK(!is_root || seteuid(0) == 0);
    CHECK(failed(status, SEEKLESS_STATUS_SYSTEM, EACCES, NULL, "ermission"));
}

struct gathered {
    unsigned char *bytes;
    size_t length, calls, stop_at;
};

static int gather(void *context, uint64_t offset, const void *bytes, size_t length) {
    struct gathered *gathered = context;
    CHECK(offset == gathered->length);
    memcpy(gathered->bytes + offset, bytes, length);
    gathered->length += length;
    gathered->calls++;
    return gathered->length >= gathered->stop_at;
}

static void reading(void) {
    unsigned char *buffer = malloc(BYTES + 10);
    seekless_options options = {0};
    const char *path = at("data");
    put(path, data, BYTES);
    CHECK(seekless_read(path, 0, buffer, BYTES + 10, NULL, &result) == SEEKLESS_STATUS_OK);
    CHECK(result.bytes == BYTES && result.is_stopped == 0 && memcmp(buffer, data, BYTES) == 0);
    CHECK(by(SEEKLESS_STATUS_OK, "read/"));
    CHECK(seekless_read(path, 4097, buffer, 70000, NULL, &result) == SEEKLESS_STATUS_OK);
    CHECK(result.bytes == 70000 && memcmp(buffer, data + 4097, 70000) == 0);
    seekless_result_free(&result);
    CHECK(by(seekless_read(path, BYTES, buffer, 1, NULL, &result), "read/"));
    CHECK(by(seekless_read(path, 0, NULL, 0, NULL, &result), "read/"));
    CHECK(failed(seekless_read(path, 0, NULL, 1, NULL, &result), SEEKLESS_STATUS_INVALID, 0, NULL, "buffer is NULL"));
    size_t negative = (size_t)-1;
    CHECK(failed(seekless_read(path, 0, buffer, negative, NULL, &result), SEEKLESS_STATUS_INVALID, 0, NULL, "memory can hold"));
    CHECK(failed(seekless_read(NULL, 0, buffer, 1, NULL, &result), SEEKLESS_STATUS_INVALID, 0, NULL, "path is NULL"));
    CHECK(failed(seekless_read(at("none"), 0, buffer, 1, NULL, &result), SEEKLESS_STATUS_SYSTEM, ENOENT, at("none"), "No such file"));
    CHECK(failed(seekless_read(directory, 0, buffer, 1, NULL, &result), SEEKLESS_STATUS_NOT_REGULAR, 0, directory, "a directory"));

    const char *methods[] = {"read/sync,block=4K", "read/double-buffer,block=64K", "read/planned"};
    for (size_t n = 0; n < sizeof methods / sizeof *methods; n++) {
        options.method = methods[n];
        memset(buffer, 0, BYTES);
        CHECK(seekless_read(path, 0, buffer, BYTES, &options, &result) == SEEKLESS_STATUS_OK);
        CHECK(memcmp(buffer, data, BYTES) == 0 && by(SEEKLESS_STATUS_OK, n < 2 ? methods[n] : "read/"));
    }
    const char *wrong[] = {"read/nonsense", "", "copy/sync", "copy/planned", "\xff"};
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        options.method = wrong[n];
        CHECK(failed(seekless_read(path, 0, buffer, 1, &options, &result), SEEKLESS_STATUS_INVALID, 0, NULL, ""));
    }
    options.method = "read/mmap";
    CHECK(failed(seekless_read(path, 0, buffer, BYTES, &options, &result), SEEKLESS_STATUS_UNAVAILABLE, 0, path, "read/mmap"));
    CHECK(seekless_allow_mapping(&result) == SEEKLESS_STATUS_OK && seekless_allow_mapping(NULL) == SEEKLESS_STATUS_OK);
    CHECK(by(seekless_read(path, 0, buffer, BYTES, &options, &result), "read/mmap"));

    struct gathered gathered = {buffer, 0, 0, SIZE_MAX};
    CHECK(seekless_read_blocks(path, 0, UINT64_MAX, gather, &gathered, NULL, &result) == SEEKLESS_STATUS_OK);
    CHECK(result.bytes == BYTES && gathered.length == BYTES && memcmp(buffer, data, BYTES) == 0 && by(SEEKLESS_STATUS_OK, "read/"));
    options.method = "read/sync,block=64K";
    gathered = (struct gathered){buffer, 0, 0, 1};
    CHECK(seekless_read_blocks(path, 100, 200000, gather, &gathered, &options, &result) == SEEKLESS_STATUS_OK);
    CHECK(result.is_stopped == 1 && gathered.calls == 1 && memcmp(buffer, data + 100, gathered.length) == 0);
    CHECK(by(SEEKLESS_STATUS_OK, "read/sync"));
    CHECK(failed(seekless_read_blocks(path, 0, 1, NULL, NULL, NULL, &result), SEEKLESS_STATUS_INVALID, 0, NULL, "callback is NULL"));
    free(buffer);
}

static void copying(void) {
    const char *from = at("data"), *to = at("copy");
    seekless_options options = {0};
    CHECK(by(seekless_copy(from, to, NULL, &result), "copy/") && holds(to, data, BYTES));
    CHECK(failed(seekless_copy(from, to, NULL, &result), SEEKLESS_STATUS_SYSTEM, EEXIST, to, "exists"));
    options.destination = SEEKLESS_DESTINATION_OVERWRITE;
    options.method = "copy/double-buffer,block=1M";
    put(to, "older", 5);
    CHECK(by(seekless_copy(from, to, &options, &result), options.method) && holds(to, data, BYTES));
    CHECK(failed(seekless_copy(from, from, &options, &result), SEEKLESS_STATUS_INVALID, 0, from, "same file"));
    CHECK(seekless_copy(from, at("second copy"), NULL, NULL) == SEEKLESS_STATUS_OK);
    CHECK(seekless_copy(NULL, to, NULL, NULL) == SEEKLESS_STATUS_INVALID);
    CHECK(failed(seekless_copy(from, NULL, NULL, &result), SEEKLESS_STATUS_INVALID, 0, NULL, "path is NULL"));
    /* Names are bytes. */
    const char *name = at("\xff\xfe"), *missing = at("\xff none");
    CHECK(by(seekless_copy(from, name, NULL, &result), "copy/") && holds(name, data, BYTES));
    CHECK(failed(seekless_copy(missing, to, NULL, &result), SEEKLESS_STATUS_SYSTEM, ENOENT, missing, "none"));
}

static void found(const char *one, const char *other, seekless_verdict verdict, uint64_t bytes) {
    CHECK(seekless_compare(one, other, NULL, &result) == SEEKLESS_STATUS_OK);
    CHECK(result.verdict == verdict && result.bytes == bytes);
    CHECK(by(SEEKLESS_STATUS_OK, "compare/"));
}

static void comparing(void) {
    const char *one = at("data"), *other = at("other");
    unsigned char changed = data[1234567] ^ 1;
    put(other, data, BYTES);
    found(one, other, SEEKLESS_VERDICT_EQUAL, BYTES);
    FILE *file = fopen(other, "r+b");
    CHECK(file && fseek(file, 1234567, SEEK_SET) == 0 && fwrite(&changed, 1, 1, file) == 1 && fclose(file) == 0);
    found(one, other, SEEKLESS_VERDICT_DIFFER, 1234567);
    put(other, data, 99999);
    found(one, other, SEEKLESS_VERDICT_SECOND_ENDED, 99999);
    found(other, one, SEEKLESS_VERDICT_FIRST_ENDED, 99999);
    CHECK(failed(seekless_compare(one, at("none"), NULL, &result), SEEKLESS_STATUS_SYSTEM, ENOENT, at("none"), "none"));
    CHECK(failed(seekless_compare(one, directory, NULL, &result), SEEKLESS_STATUS_NOT_REGULAR, 0, directory, "directory"));
}

static void updating(void) {
    static unsigned char expected[BYTES + 7];
    const char *path = at("updated");
    seekless_change changes[] = {{5, "first", 5}, {1000000, "second", 6}, {7, "RST", 3}, {BYTES - 3, "end", 3}};
    memcpy(expected, data, BYTES);
    for (size_t n = 0; n < 4; n++) {
        memcpy(expected + changes[n].offset, changes[n].bytes, changes[n].length);
    }
    uint32_t safeties[] = {SEEKLESS_SAFETY_IN_PLACE, SEEKLESS_SAFETY_JOURNAL, SEEKLESS_SAFETY_REPLACE};
    for (size_t n = 0; n < 3; n++) {
        seekless_options options = {0};
        options.safety = safeties[n];
        options.durability = SEEKLESS_DURABILITY_FSYNC;
        put(path, data, BYTES);
        CHECK(seekless_update(path, changes, 4, &options, &result) == SEEKLESS_STATUS_OK);
        CHECK(result.bytes == 14 && strstr(result.method, "fsync") && by(SEEKLESS_STATUS_OK, "update/"));
        CHECK(holds(path, expected, BYTES));
    }
    seekless_options options = {0};
    seekless_change past = {BYTES + 2, "grown", 5};
    CHECK(failed(seekless_update(path, &past, 1, NULL, &result), SEEKLESS_STATUS_UPDATE, 0, path, "past the end"));
    options.grows = 1;
    memcpy(expected + BYTES, "\0\0grown", 7);
    CHECK(by(seekless_update(path, &past, 1, &options, &result), "update/") && holds(path, expected, BYTES + 7));
    past.bytes = NULL;
    CHECK(failed(seekless_update(path, &past, 1, &options, &result), SEEKLESS_STATUS_INVALID, 0, NULL, "NULL"));
    CHECK(failed(seekless_update(path, NULL, 1, NULL, &result), SEEKLESS_STATUS_INVALID, 0, NULL, "NULL"));
    CHECK(failed(seekless_update(path, changes, SIZE_MAX / 8, NULL, &result), SEEKLESS_STATUS_INVALID, 0, NULL, "memory can hold"));
    past = (seekless_change){UINT64_MAX, "x", 1};
    CHECK(failed(seekless_update(path, &past, 1, NULL, &result), SEEKLESS_STATUS_INVALID, 0, NULL, "largest file size"));
    options.safety = 3;
    CHECK(failed(seekless_update(path, changes, 4, &options, &result), SEEKLESS_STATUS_INVALID, 0, NULL, "3 is not a safety"));
}

static void planned(seekless_status status, const char *method, const char *option) {
    CHECK(status == SEEKLESS_STATUS_OK && strstr(result.method, option) != NULL && result.bytes == 0);
    CHECK(0 <= result.seconds_low && result.seconds_low <= result.seconds && result.seconds <= result.seconds_high);
    CHECK(result.seconds_high > 0 && by(status, method));
    CHECK(result.method == NULL && result.text == NULL && result.seconds == 0);
    seekless_result_free(&result);
}

static void planning(void) {
    const char *path = at("data"), *other = at("other"), *to = at("planned");
    planned(seekless_plan("read/planned", path, NULL, 0, &result), "read/", "");
    planned(seekless_plan("write/planned", to, NULL, 1 << 20, &result), "write/", "");
    planned(seekless_plan("write/planned,fsync", to, NULL, 1 << 20, &result), "write/", "fsync");
    planned(seekless_plan("copy/planned,fsync", path, to, 0, &result), "copy/", "fsync");
    planned(seekless_plan("compare/planned", path, other, 0, &result), "compare/", "");
    CHECK(access(to, F_OK) == -1 && holds(path, data, BYTES));
    const char *wrong[] = {"copy/sync", "update/planned", "copy", "", NULL, "read/planned,fsync"};
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        CHECK(failed(seekless_plan(wrong[n], path, other, 0, &result), SEEKLESS_STATUS_INVALID, 0, NULL, ""));
    }
    CHECK(failed(seekless_plan("copy/planned", path, NULL, 0, &result), SEEKLESS_STATUS_INVALID, 0, NULL, "NULL"));
    CHECK(seekless_plan("read/planned", at("none"), NULL, 0, NULL) == SEEKLESS_STATUS_SYSTEM);
}

struct told {
    uint64_t calls, of_bytes, stop_at;
};

static int tell(void *context, uint64_t done_bytes, uint64_t of_bytes) {
    struct told *told = context;
    told->calls++;
    told->of_bytes = of_bytes;
    return done_bytes >= told->stop_at;
}

static void progressing(void) {
    struct told told = {0, 0, UINT64_MAX};
    seekless_options options = {0};
    const char *from = at("large"), *to = at("large copy");
    put(from, "", 0);
    CHECK(truncate(from, LARGE) == 0);
    options.method = "copy/sync,block=1M";
    options.progress = tell;
    options.progress_context = &told;
    CHECK(by(seekless_copy(from, to, &options, &result), "copy/sync"));
    CHECK(told.calls >= 2 && told.of_bytes == LARGE && unlink(to) == 0);
    told.stop_at = 1;
    CHECK(failed(seekless_copy(from, to, &options, &result), SEEKLESS_STATUS_STOPPED, 0, from, "stopped"));
    CHECK(access(to, F_OK) == -1);
}

static void *work(void *number) {
    unsigned char *buffer = malloc(BYTES);
    char name[32];
    snprintf(name, sizeof name, "of thread %d", *(int *)number);
    const char *own = at(name), *shared = at("data"), *none = at("none");
    for (int round = 0; round < 3; round++) {
        seekless_result mine;
        seekless_options options = {0};
        options.destination = round > 0 ? SEEKLESS_DESTINATION_OVERWRITE : SEEKLESS_DESTINATION_NEW;
        CHECK(seekless_copy(shared, own, &options, &mine) == SEEKLESS_STATUS_OK && mine.bytes == BYTES);
        seekless_result_free(&mine);
        CHECK(seekless_compare(shared, own, NULL, &mine) == SEEKLESS_STATUS_OK && mine.verdict == SEEKLESS_VERDICT_EQUAL);
        seekless_result_free(&mine);
        CHECK(seekless_read(own, 0, buffer, BYTES, NULL, &mine) == SEEKLESS_STATUS_OK);
        CHECK(mine.bytes == BYTES && memcmp(buffer, data, BYTES) == 0);
        seekless_result_free(&mine);
        CHECK(seekless_read(none, 0, buffer, BYTES, NULL, &mine) == SEEKLESS_STATUS_SYSTEM && mine.error_number == ENOENT);
        CHECK(strcmp(mine.path, none) == 0);
        seekless_result_free(&mine);
    }
    free(buffer);
    return NULL;
}

static void threading(void) {
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int n = 0; n < THREADS; n++) {
        numbers[n] = n;
        CHECK(pthread_create(&threads[n], NULL, work, &numbers[n]) == 0);
    }
    for (int n = 0; n < THREADS; n++) {
        CHECK(pthread_join(threads[n], NULL) == 0);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 3 && strcmp(seekless_version(), argv[2]) == 0);
    directory = argv[1];
    for (uint64_t n = 0; n < BYTES; n++) {
        data[n] = (unsigned char)(n * n / 7 + n / 4096);
    }
    seekless_result_free(NULL);
    seekless_result_free(&result);
    writing();
    where_it_may_not_write();
    reading();
    copying();
    comparing();
    updating();
    planning();
    progressing();
    threading();
    puts("all of it");
    return 0;
}
