#include "tree_bucket.h"

#include <stdlib.h>
#include <string.h>

#include "sha256.h"

enum { FIRST_ROOM = 64 };

const uint8_t *bt_bucket_hashes(const BtBucket *bucket)
{
    return (const uint8_t *)(bucket->lengths + bucket->count);
}

static const uint8_t *names_of(const BtBucket *bucket)
{
    return bt_bucket_hashes(bucket) + bucket->count * BT_HASH_BYTES;
}

static bool is_same(const uint8_t *name, size_t length, const uint8_t *other, size_t other_length)
{
    return length == other_length && (length == 0 || memcmp(name, other, length) == 0);
}

bool bt_bucket_has(const BtBucket *bucket, const uint8_t *name, size_t length)
{
    if (bucket == NULL)
        return false;
    const uint8_t *other = names_of(bucket);
    for (size_t i = 0; i < bucket->count; other += bucket->lengths[i++])
        if (is_same(name, length, other, bucket->lengths[i]))
            return true;
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
    const uint8_t *hash = bt_bucket_hashes(bucket), *name = names_of(bucket);
    for (size_t i = 0; i < count; i++) {
        entries->entries[i] = (BtEntry){hash, name, bucket->lengths[i]};
        hash += BT_HASH_BYTES;
        name += bucket->lengths[i];
    }
    entries->count = count;
    return true;
}

void bt_entries_remove(BtEntries *entries, const uint8_t *name, size_t length)
{
    for (size_t i = 0; i < entries->count; i++) {
        BtEntry *entry = entries->entries + i;
        if (is_same(name, length, entry->name, entry->length)) {
            entries->count--;
            memmove(entry, entry + 1, (entries->count - i) * sizeof *entry);
            return;
        }
    }
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

BtBucket *bt_entries_bucket(const BtEntries *entries)
{
    const size_t each = sizeof(size_t) + BT_HASH_BYTES;
    if (entries->count > (SIZE_MAX - sizeof(BtBucket)) / each)
        return NULL;
    size_t bytes = sizeof(BtBucket) + entries->count * each;
    for (size_t i = 0; i < entries->count; i++) {
        if (entries->entries[i].length > SIZE_MAX - bytes)
            return NULL;
        bytes += entries->entries[i].length;
    }
    BtBucket *bucket = malloc(bytes);
    if (bucket == NULL)
        return NULL;
    bucket->count = entries->count;
    uint8_t *hash = (uint8_t *)(bucket->lengths + bucket->count);
    uint8_t *name = hash + bucket->count * BT_HASH_BYTES;
    for (size_t i = 0; i < entries->count; i++) {
        const BtEntry *entry = entries->entries + i;
        bucket->lengths[i] = entry->length;
        memcpy(hash, entry->hash, BT_HASH_BYTES);
        if (entry->length)
            memcpy(name, entry->name, entry->length);
        hash += BT_HASH_BYTES;
        name += entry->length;
    }
    return bucket;
}

void bt_entries_free(BtEntries *entries)
{
    free(entries->entries);
    *entries = (BtEntries){NULL, 0, 0};
}
