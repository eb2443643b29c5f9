/* Buckets: names with the hashes of their contents, ascending by hash. A bucket is one piece of memory and never
 * changes; changes make another one. Whoever has a bucket has a reference to it.
 *
 * Short names are in the bucket itself, where they are read and copied with it. Anybody can choose names that come into
 * one bucket, and of long ones a copy for each change would be as large as all of them: buckets share these. */
#ifndef BOBBIN_TREE_BUCKET_H
#define BOBBIN_TREE_BUCKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One reference less. True: it was the last one, and the caller frees what it was of. Where there is only one, nobody
 * else can make another, so that looking is enough. */
static inline bool bt_is_last(atomic_size_t *references)
{
    return atomic_load_explicit(references, memory_order_acquire) == 1 || atomic_fetch_sub(references, 1) == 1;
}

/* A long name. Its bytes are elsewhere, so that the references of many names are near each other. */
typedef struct {
    atomic_size_t references;
    size_t length;
    uint8_t *bytes;
} BtLongName;

typedef struct {
    /* Of the name, so that most of those that differ need not be read. */
    uint32_t checksum;
    /* Or what says that it is a long one. */
    uint32_t length;
} BtHead;

/* Never empty: where there is nothing, there is no bucket. */
typedef struct {
    atomic_size_t references;
    size_t count;
    /* After them come the hashes, in one piece, and after these the names: a pointer for a long one. */
    BtHead heads[];
} BtBucket;

/* One content of a bucket that is being put together: pointers into other buckets, and into what a caller gave. */
typedef struct {
    const uint8_t *hash;
    const uint8_t *name;
    size_t length;
    /* Where `name` is in one that is shared already. */
    BtLongName *shared;
    uint32_t checksum;
} BtEntry;

typedef struct {
    BtEntry *entries;
    size_t count;
    size_t room;
} BtEntries;

/* All hashes of a bucket. */
const uint8_t *bt_bucket_hashes(const BtBucket *bucket);

/* Whether a name is in a bucket, or in none. */
bool bt_bucket_has(const BtBucket *bucket, const uint8_t *name, size_t length, uint32_t checksum);

/* One more reference to a bucket, or to none. */
void bt_bucket_keep(BtBucket *bucket);

/* One reference less to a bucket, or to none. */
void bt_bucket_release(BtBucket *bucket);

/* Begins with the contents of a bucket, or of none; makes room for `more`. False: memory ran out. */
bool bt_entries_begin(BtEntries *entries, const BtBucket *bucket, size_t more);

/* Takes a name away, if it is there. The name itself is returned if it is shared, for an entry of the same name. */
BtLongName *bt_entries_remove(BtEntries *entries, const uint8_t *name, size_t length, uint32_t checksum);

/* Adds a name that is not there. There must be room. */
void bt_entries_insert(BtEntries *entries, BtEntry entry);

/* The bucket of some entries, with one reference; a null pointer where memory ran out. There must be entries. */
BtBucket *bt_entries_bucket(BtEntries *entries);

void bt_entries_free(BtEntries *entries);

#endif
