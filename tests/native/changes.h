/* What the programs with trees share: changes that are put together one by one. */
#ifndef CHANGES_H
#define CHANGES_H

#include <merkle.h>

#include "checks.h"

enum { CHANGES_MAX = 400, CHANGE_BYTES_MAX = 64 * CHANGES_MAX, TEXT_BYTES_MAX = 64, LONG_BYTES = 2000, LONG_NAMES = 6 };

typedef struct {
    size_t count;
    size_t names_bytes;
    size_t contents_bytes;
    uint64_t name_lengths[CHANGES_MAX];
    uint64_t content_lengths[CHANGES_MAX];
    uint8_t names[CHANGE_BYTES_MAX];
    uint8_t contents[CHANGE_BYTES_MAX];
} Changes;

/* The arguments that a function wants of some changes. */
#define CHANGES(of)                                                                                          \
    (of)->count, (of)->names, (of)->names_bytes, (of)->name_lengths, (of)->contents, (of)->contents_bytes,   \
        (of)->content_lengths

static inline void change(Changes *changes, const char *name, const char *content)
{
    size_t length = strlen(name), content_length = content == NULL ? 0 : strlen(content);
    CHECK(changes->count < CHANGES_MAX && length <= CHANGE_BYTES_MAX - changes->names_bytes);
    CHECK(content_length <= CHANGE_BYTES_MAX - changes->contents_bytes);
    memcpy(changes->names + changes->names_bytes, name, length);
    if (content != NULL)
        memcpy(changes->contents + changes->contents_bytes, content, content_length);
    changes->names_bytes += length;
    changes->contents_bytes += content_length;
    changes->name_lengths[changes->count] = length;
    changes->content_lengths[changes->count++] = content == NULL ? BOBBIN_TREE_GONE : content_length;
}

/* The names with the numbers `from` to `to`, each with a content of that round; the round 0 takes them away. */
static inline void change_numbers(Changes *changes, int from, int to, int round)
{
    for (int number = from; number < to; number++) {
        char name[TEXT_BYTES_MAX], content[TEXT_BYTES_MAX];
        snprintf(name, sizeof name, "name %d", number);
        snprintf(content, sizeof content, "content %d %d", number, round);
        change(changes, name, round ? content : NULL);
    }
}

/* Some of six long names, which belong to one bucket: as many letters "n" as LONG_BYTES says, and a number. */
static inline void change_long(Changes *changes, int from, int to, int round)
{
    static const int NUMBERS[LONG_NAMES] = {0, 22107, 61680, 95063, 134475, 183511};
    for (int i = from; i < to; i++) {
        char name[LONG_BYTES + TEXT_BYTES_MAX], content[TEXT_BYTES_MAX];
        memset(name, 'n', LONG_BYTES);
        snprintf(name + LONG_BYTES, TEXT_BYTES_MAX, "%d", NUMBERS[i]);
        snprintf(content, sizeof content, "content %d %d", i, round);
        change(changes, name, round ? content : NULL);
    }
}

#endif
