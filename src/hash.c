/* SPDX-License-Identifier: MIT */
#include "hash.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct qw_hash {
    EVP_MD_CTX *ctx;
    bool ok;
};

struct qw_hash *qw_hash_open(void)
{
    struct qw_hash *h = qw_alloc(1, sizeof(*h));
    h->ctx = EVP_MD_CTX_new();
    h->ok = h->ctx != NULL && EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) == 1;
    return h;
}

void qw_hash_add(struct qw_hash *h, const void *data, size_t bytes)
{
    h->ok = h->ok && (bytes == 0 || EVP_DigestUpdate(h->ctx, data, bytes) == 1);
}

bool qw_hash_end(struct qw_hash *h, unsigned char md[QW_HASH_BYTES])
{
    unsigned char all[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    const bool ok =
        h->ok && EVP_DigestFinal_ex(h->ctx, all, &len) == 1 && len == QW_HASH_BYTES;
    memset(md, 0, QW_HASH_BYTES);
    if (ok)
        memcpy(md, all, QW_HASH_BYTES);
    EVP_MD_CTX_free(h->ctx);
    free(h);
    return ok;
}

void qw_hash_hex(const unsigned char md[QW_HASH_BYTES], char hex[65])
{
    for (int i = 0; i < QW_HASH_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", md[i]);
}

enum { KEEP = 64 /* hashes a cache file holds; the oldest is dropped */ };

/* What a file is known by; a line of the cache is this, a blank and the hash. */
static void name_file(const struct stat *st, char *key, size_t size)
{
    snprintf(key, size, "%llu:%llu:%lld:%lld.%09ld", (unsigned long long)st->st_dev,
             (unsigned long long)st->st_ino, (long long)st->st_size,
             (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

static bool is_hash(const char *s)
{
    return strspn(s, "0123456789abcdef") == 64 && (s[64] == '\n' || s[64] == '\0');
}

static bool look_up(const char *cache, const char *key, char hex[65])
{
    char line[256];
    const size_t n = strlen(key);
    bool found = false;
    FILE *f = cache ? fopen(cache, "r") : NULL;
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, key, n) == 0 && line[n] == ' ' && is_hash(line + n + 1)) {
            memcpy(hex, line + n + 1, 64);
            hex[64] = '\0';
            found = true;
        }
    if (f != NULL)
        fclose(f);
    return found;
}

/* Make the folders above path, as far as they are missing. */
static void make_folders(const char *path)
{
    char *dir = qw_strdup(path);
    for (char *s = strchr(dir + 1, '/'); s != NULL; s = strchr(s + 1, '/')) {
        *s = '\0';
        mkdir(dir, 0700);
        *s = '/';
    }
    free(dir);
}

/* The newest lines of the old cache behind the new one, in a file that takes its place.
 */
static void remember(const char *cache, const char *key, const char *hex)
{
    char line[256], *temp = qw_sprintf("%s.%ld", cache, (long)getpid());
    make_folders(cache);
    FILE *old = fopen(cache, "r");
    FILE *new = fopen(temp, "wx");
    if (new != NULL) {
        fprintf(new, "%s %s\n", key, hex);
        for (int i = 1; i < KEEP && old != NULL && fgets(line, sizeof(line), old) != NULL;
             i++)
            fputs(line, new);
        const bool whole = !ferror(new);
        if (fclose(new) != 0 || !whole || rename(temp, cache) != 0)
            unlink(temp);
    }
    if (old != NULL)
        fclose(old);
    free(temp);
}

static bool digest(int fd, char hex[65])
{
    enum { CHUNK = 1 << 20 };
    unsigned char *chunk = qw_alloc(CHUNK, 1), md[QW_HASH_BYTES];
    ssize_t n;
    struct qw_hash *h = qw_hash_open();
    while ((n = read(fd, chunk, CHUNK)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            qw_hash_add(h, chunk, (size_t)n);
    const bool ok = qw_hash_end(h, md) && n == 0;
    if (ok)
        qw_hash_hex(md, hex);
    free(chunk);
    return ok;
}

bool qw_hash_file(const char *path, const char *cache, bool only_known, char hex[65])
{
    struct stat before, after;
    char key[128];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = fstat(fd, &before) == 0;
    if (ok) {
        name_file(&before, key, sizeof(key));
        if (!look_up(cache, key, hex)) {
            ok = !only_known && digest(fd, hex) && fstat(fd, &after) == 0;
            /* a file that changes while it is read has no hash worth keeping */
            if (ok && cache != NULL && before.st_size == after.st_size &&
                before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
                before.st_mtim.tv_nsec == after.st_mtim.tv_nsec)
                remember(cache, key, hex);
        }
    }
    close(fd);
    return ok;
}
