/* Buckets: names with the hashes of their contents, ascending by hash. A bucket is one piece of memory, has one owner
 * and never changes; changes make another one. */
#ifndef BOBBIN_TREE_BUCKET_H
#define BOBBIN_TREE_BUCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Never empty: where there is nothing, there is no bucket. */
typedef struct {
    size_t count;
    /* Of the names; after them come the hashes, in one piece, and after these the names. */
    size_t lengths[];
} BtBucket;

/* One content of a bucket that is being put together: pointers into other buckets, and into what a caller gave. */
typedef struct {
    const uint8_t *hash;
    const uint8_t *name;
    size_t length;
} BtEntry;

typedef struct {
    BtEntry *entries;
    size_t count;
    size_t room;
} BtEntries;

/* All hashes of a bucket. */
const uint8_t *bt_bucket_hashes(const BtBucket *bucket);

/* Whether a name is in a bucket, or in none. */
bool bt_bucket_has(const BtBucket *bucket, const uint8_t *name, size_t length);

/* Begins with the contents of a bucket, or of none; makes room for `more`. False: memory ran out. */
bool bt_entries_begin(BtEntries *entries, const BtBucket *bucket, size_t more);

/* Takes a name away, if it is there. */
void bt_entries_remove(BtEntries *entries, const uint8_t *name, size_t length);

/* Adds a name that is not there. There must be room. */
void bt_entries_insert(BtEntries *entries, BtEntry entry);

/* The bucket of some entries; a null pointer where memory ran out. There must be entries. */
BtBucket *bt_entries_bucket(const BtEntries *entries);

void bt_entries_free(BtEntries *entries);

#endif
