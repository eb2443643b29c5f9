#include "tree_bucket.h"

#include <stdlib.h>
#include <string.h>

#include "sha256.h"

enum { FIRST_ROOM = 64, SHORT_NAME_MAX = 64 };

/* The length of a name that is a pointer to a long one. */
#define IS_LONG UINT32_MAX

/* ---- references ------------------------------------------------------------------------------------------------- */

static BtLongName *new_name(const uint8_t *bytes, size_t length)
{
    BtLongName *name = malloc(sizeof *name);
    if (name == NULL)
        return NULL;
    *name = (BtLongName){0, length, malloc(length)};
    if (name->bytes == NULL) {
        free(name);
        return NULL;
    }
    memcpy(name->bytes, bytes, length);
    return name;
}

static void free_name(BtLongName *name)
{
    free(name->bytes);
    free(name);
}

const uint8_t *bt_bucket_hashes(const BtBucket *bucket)
{
    return (const uint8_t *)(bucket->heads + bucket->count);
}

static const uint8_t *names_of(const BtBucket *bucket)
{
    return bt_bucket_hashes(bucket) + bucket->count * BT_HASH_BYTES;
}

/* How many bytes of a bucket a name takes. */
static size_t size_in_bucket(const BtHead *head)
{
    return head->length == IS_LONG ? sizeof(BtLongName *) : head->length;
}

/* The long name that a bucket points to at some bytes, which may be anywhere. */
static BtLongName *long_name_at(const uint8_t *bytes)
{
    BtLongName *name;
    memcpy(&name, bytes, sizeof(BtLongName *));
    return name;
}

void bt_bucket_keep(BtBucket *bucket)
{
    if (bucket != NULL)
        atomic_fetch_add(&bucket->references, 1);
}

void bt_bucket_release(BtBucket *bucket)
{
    if (bucket == NULL || !bt_is_last(&bucket->references))
        return;
    const uint8_t *bytes = names_of(bucket);
    for (size_t i = 0; i < bucket->count; bytes += size_in_bucket(bucket->heads + i++)) {
        if (bucket->heads[i].length != IS_LONG)
            continue;
        BtLongName *name = long_name_at(bytes);
        if (bt_is_last(&name->references))
            free_name(name);
    }
    free(bucket);
}

/* ---- entries ---------------------------------------------------------------------------------------------------- */

static BtEntry entry_of(const BtHead *head, const uint8_t *hash, const uint8_t *bytes)
{
    if (head->length != IS_LONG)
        return (BtEntry){hash, bytes, head->length, NULL, head->checksum};
    BtLongName *name = long_name_at(bytes);
    return (BtEntry){hash, name->bytes, name->length, name, head->checksum};
}

static bool is_of(const BtEntry *entry, const uint8_t *name, size_t length, uint32_t checksum)
{
    return checksum == entry->checksum && length == entry->length
           && (length == 0 || memcmp(name, entry->name, length) == 0);
}

bool bt_bucket_has(const BtBucket *bucket, const uint8_t *name, size_t length, uint32_t checksum)
{
    if (bucket == NULL)
        return false;
    const uint8_t *bytes = names_of(bucket);
    for (size_t i = 0; i < bucket->count; bytes += size_in_bucket(bucket->heads + i++)) {
        if (bucket->heads[i].checksum != checksum)
            continue;
        BtEntry entry = entry_of(bucket->heads + i, NULL, bytes);
        if (is_of(&entry, name, length, checksum))
            return true;
    }
    return false;
}

static bool make_room(BtEntries *entries, size_t needed)
{
    if (needed <= entries->room)
        return true;
    size_t room = entries->room ? entries->room : FIRST_ROOM;
    while (room < needed && room <= SIZE_MAX / 2)
        room *= 2;
    if (room < needed || room > SIZE_MAX / sizeof(BtEntry))
        return false;
    BtEntry *grown = realloc(entries->entries, room * sizeof(BtEntry));
    if (grown == NULL)
        return false;
    entries->entries = grown;
    entries->room = room;
    return true;
}

bool bt_entries_begin(BtEntries *entries, const BtBucket *bucket, size_t more)
{
    size_t count = bucket == NULL ? 0 : bucket->count;
    entries->count = 0;
    if (more > SIZE_MAX - count || !make_room(entries, count + more))
        return false;
    if (bucket == NULL)
        return true;
    const uint8_t *hash = bt_bucket_hashes(bucket), *bytes = names_of(bucket);
    for (size_t i = 0; i < count; i++) {
        entries->entries[i] = entry_of(bucket->heads + i, hash, bytes);
        hash += BT_HASH_BYTES;
        bytes += size_in_bucket(bucket->heads + i);
    }
    entries->count = count;
    return true;
}

BtLongName *bt_entries_remove(BtEntries *entries, const uint8_t *name, size_t length, uint32_t checksum)
{
    for (size_t i = 0; i < entries->count; i++) {
        BtEntry *entry = entries->entries + i;
        if (is_of(entry, name, length, checksum)) {
            BtLongName *shared = entry->shared;
            entries->count--;
            memmove(entry, entry + 1, (entries->count - i) * sizeof *entry);
            return shared;
        }
    }
    return NULL;
}

void bt_entries_insert(BtEntries *entries, BtEntry entry)
{
    size_t low = 0, high = entries->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memcmp(entries->entries[middle].hash, entry.hash, BT_HASH_BYTES) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(entries->entries + low + 1, entries->entries + low, (entries->count - low) * sizeof entry);
    entries->entries[low] = entry;
    entries->count++;
}

/* Frees the names of some entries that no bucket has yet. */
static void free_new_names(BtEntries *entries)
{
    for (size_t i = 0; i < entries->count; i++) {
        BtEntry *entry = entries->entries + i;
        if (entry->shared != NULL && atomic_load(&entry->shared->references) == 0) {
            free_name(entry->shared);
            entry->shared = NULL;
        }
    }
}

/* Memory for a bucket of some entries, and long names where there are none yet. */
static BtBucket *bucket_for(BtEntries *entries)
{
    const size_t each = sizeof(BtHead) + BT_HASH_BYTES + SHORT_NAME_MAX;
    if (entries->count > (SIZE_MAX - sizeof(BtBucket)) / each)
        return NULL;
    size_t bytes = sizeof(BtBucket) + entries->count * (sizeof(BtHead) + BT_HASH_BYTES);
    for (size_t i = 0; i < entries->count; i++) {
        BtEntry *entry = entries->entries + i;
        bool is_long = entry->length > SHORT_NAME_MAX;
        bytes += is_long ? sizeof(BtLongName *) : entry->length;
        if (is_long && entry->shared == NULL) {
            entry->shared = new_name(entry->name, entry->length);
            if (entry->shared == NULL)
                return NULL;
        }
    }
    return malloc(bytes);
}

BtBucket *bt_entries_bucket(BtEntries *entries)
{
    BtBucket *bucket = bucket_for(entries);
    if (bucket == NULL) {
        free_new_names(entries);
        return NULL;
    }
    atomic_init(&bucket->references, 1);
    bucket->count = entries->count;
    uint8_t *hash = (uint8_t *)(bucket->heads + bucket->count);
    uint8_t *bytes = hash + bucket->count * BT_HASH_BYTES;
    for (size_t i = 0; i < entries->count; i++) {
        const BtEntry *entry = entries->entries + i;
        BtHead *head = bucket->heads + i;
        *head = (BtHead){entry->checksum, entry->shared == NULL ? (uint32_t)entry->length : IS_LONG};
        memcpy(hash, entry->hash, BT_HASH_BYTES);
        if (entry->shared != NULL) {
            atomic_fetch_add_explicit(&entry->shared->references, 1, memory_order_relaxed);
            memcpy(bytes, &entry->shared, sizeof(BtLongName *));
        } else if (entry->length)
            memcpy(bytes, entry->name, entry->length);
        hash += BT_HASH_BYTES;
        bytes += size_in_bucket(head);
    }
    return bucket;
}

void bt_entries_free(BtEntries *entries)
{
    free(entries->entries);
    *entries = (BtEntries){NULL, 0, 0};
}
