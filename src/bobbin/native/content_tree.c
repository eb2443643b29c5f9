/* The functions of content_tree.h.
 *
 * A draft notes for every bucket that changes its contents and its hash, and for every branch above them its hash; not
 * the texts of branches, which are put together from the tree, the drafts below and its own notes when they are hashed.
 * Notes are ascending by place. An update goes through the places in that order too, so that each lower draft is read
 * from one end to the other.
 *
 * A tree has a lock of its own for its contents, which an update holds while it reads them. One more lock, of all
 * trees, is for what refers to what; it is taken after that of a tree and held for a few steps only, however large a
 * tree or an update is. Notes and buckets never change and are counted, so what is read of a draft below needs no lock,
 * though that draft may read another tree. Contents are hashed before any lock is taken.
 */
#define _POSIX_C_SOURCE 200809L

#include "content_tree.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "pairs.h"
#include "tree_bucket.h"
#include "tree_texts.h"

enum { LEVELS = 3, PLACES = 1 << 16, TAG_CONTENT = 0, TAG_BUCKET = 1, TAG_BRANCH = 2 };

/* Level by level, from the buckets up: how many bits of a place choose the child of a branch. */
static const unsigned BRANCH_BITS[LEVELS] = {5, 5, 6};

static const uint8_t EMPTY[BT_HASH_BYTES];

/* What a quick update may go through: the contents of each bucket, as it becomes, and once more for each of its
 * changes. It takes about a millisecond. */
enum { QUICK_EFFORT_MAX = 1 << 16 };

/* Of all trees and drafts: the notes of drafts, what they stand on, and all tops. */
static pthread_mutex_t links = PTHREAD_MUTEX_INITIALIZER;

struct BobbinTree {
    /* The handle, if it is not freed, and every draft. */
    atomic_size_t references;
    const BtSha256 *sha256;
    uint32_t checksums[256];
    /* Changed with the tree's lock, read without. */
    atomic_size_t count;
    /* Changed with both locks, read with either. */
    uint8_t top[BT_HASH_BYTES];
    /* For all that follows. */
    pthread_mutex_t lock;
    BtBucket *buckets[PLACES];
    uint8_t bucket_hashes[PLACES][BT_HASH_BYTES];
    uint8_t low_hashes[PLACES >> 5][BT_HASH_BYTES];
    uint8_t high_hashes[PLACES >> 10][BT_HASH_BYTES];
};

/* What becomes of some children of one level: their places, ascending, and their hashes. */
typedef struct {
    uint16_t *places;
    uint8_t (*hashes)[BT_HASH_BYTES];
    size_t count;
} Level;

/* One piece of memory with all that it points to but the buckets. */
typedef struct {
    /* The draft that has them, and every update that reads them. */
    atomic_size_t references;
    /* As many as levels[0] has places; a null pointer for one that becomes empty. */
    BtBucket **buckets;
    Level levels[LEVELS];
} Notes;

struct BobbinTreeDraft {
    /* The handle, if it is not freed, and every draft that stands on this one. */
    atomic_size_t references;
    BobbinTree *tree;
    BobbinTreeDraft *on;
    uint8_t base[BT_HASH_BYTES];
    uint8_t top[BT_HASH_BYTES];
    /* A null pointer before there are any, and when they were let go. */
    Notes *notes;
};

/* ---- lifetimes -------------------------------------------------------------------------------------------------- */

/* Whoever has no reference left frees what nobody else can reach, so that needs no lock. */
static void release_notes(Notes *notes)
{
    if (notes == NULL || !bt_is_last(&notes->references))
        return;
    for (size_t i = 0; i < notes->levels[0].count; i++)
        bt_bucket_release(notes->buckets[i]);
    free(notes);
}

static void release_tree(BobbinTree *tree)
{
    if (!bt_is_last(&tree->references))
        return;
    for (size_t i = 0, left = tree->count; i < PLACES && left; i++)
        if (tree->buckets[i] != NULL) {
            left -= tree->buckets[i]->count;
            bt_bucket_release(tree->buckets[i]);
        }
    pthread_mutex_destroy(&tree->lock);
    free(tree);
}

/* A loop, for there may be any number of drafts upon drafts. */
static void release_draft(BobbinTreeDraft *draft)
{
    while (draft != NULL && bt_is_last(&draft->references)) {
        BobbinTreeDraft *on = draft->on;
        release_notes(draft->notes);
        release_tree(draft->tree);
        free(draft);
        draft = on;
    }
}

/* What a draft lets go of, for whoever settles it. */
typedef struct {
    Notes *notes;
    BobbinTreeDraft *on;
} Settled;

/* With the lock of all. What comes of it is released without. */
static Settled settle(BobbinTreeDraft *draft)
{
    Settled settled = {draft->notes, draft->on};
    draft->notes = NULL;
    draft->on = NULL;
    return settled;
}

static void release_settled(Settled settled)
{
    release_notes(settled.notes);
    release_draft(settled.on);
}

/* ---- changes ---------------------------------------------------------------------------------------------------- */

typedef struct {
    uint8_t hash[BT_HASH_BYTES];
    const uint8_t *name;
    size_t length;
    uint32_t checksum;
    bool is_gone;
} Change;

/* What a draft below notes, and how far it has been read. */
typedef struct {
    Notes *notes;
    size_t read;
} Below;

/* What an update works with; nothing of it outlives the update. */
typedef struct {
    size_t count;
    /* One piece for the next three. */
    void *memory;
    /* The place of a change in the upper 16 bits, and its number below them; in order once they are sorted. */
    uint64_t *keys;
    uint64_t *other_keys;
    Change *changes;
    BtTexts texts;
    BtEntries entries;
    /* Of those below that note something, the newest first. */
    size_t below_count;
    Below *below;
    /* Whether it may only make a quick update, and what it has gone through. */
    bool is_quick;
    size_t effort;
} Work;

enum { PLACE_SHIFT = 48 };
#define NUMBER_MASK ((UINT64_C(1) << PLACE_SHIFT) - 1)

static size_t place_of(uint64_t key)
{
    return (size_t)(key >> PLACE_SHIFT);
}

static const Change *change_of(const Work *work, uint64_t key)
{
    return work->changes + (size_t)(key & NUMBER_MASK);
}

/* The table of CRC-32, as zlib and everybody has it. */
static void make_checksums(uint32_t *checksums)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++)
            sum = sum & 1 ? sum >> 1 ^ UINT32_C(0xEDB88320) : sum >> 1;
        checksums[byte] = sum;
    }
}

/* Where a name belongs, and another checksum of it, by FNV-1a, of names that the first brings together. */
static size_t place_of_name(const BobbinTree *tree, const uint8_t *name, size_t length, uint32_t *checksum)
{
    uint32_t sum = UINT32_MAX;
    uint64_t other = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < length; i++) {
        sum = tree->checksums[(sum ^ name[i]) & 0xFF] ^ sum >> 8;
        other = (other ^ name[i]) * UINT64_C(0x100000001B3);
    }
    *checksum = (uint32_t)(other ^ other >> 32);
    return ~sum & (PLACES - 1);
}

static BobbinTreeStatus begin_work(Work *work, const BobbinTree *tree, bool is_quick, size_t count)
{
    const size_t each = sizeof(Change) + 2 * sizeof(uint64_t);
    /* As wide as the mask, which no number of 32 bits could exceed. */
    const uint64_t wide = count;
    work->count = count;
    work->memory = NULL;
    work->entries = (BtEntries){NULL, 0, 0};
    work->below_count = 0;
    work->below = NULL;
    work->is_quick = is_quick;
    work->effort = 0;
    if (count > SIZE_MAX / each || wide > NUMBER_MASK)
        return BobbinTreeStatus_NoMemory;
    work->memory = malloc(count ? count * each : 1);
    if (work->memory == NULL)
        return BobbinTreeStatus_NoMemory;
    work->keys = work->memory;
    work->other_keys = work->keys + count;
    work->changes = (Change *)(work->other_keys + count);
    bt_texts_start(&work->texts, tree->sha256);
    return BobbinTreeStatus_Ok;
}

static void end_work(Work *work)
{
    for (size_t i = 0; i < work->below_count; i++)
        release_notes(work->below[i].notes);
    free(work->memory);
    free(work->below);
    bt_entries_free(&work->entries);
}

/* By place. What has one place stays in its order, for the later change of a name counts. */
static void sort_keys(Work *work)
{
    for (unsigned shift = PLACE_SHIFT; shift < 64; shift += 8) {
        size_t starts[257] = {0};
        for (size_t i = 0; i < work->count; i++)
            starts[(work->keys[i] >> shift & 0xFF) + 1]++;
        for (size_t i = 1; i < 257; i++)
            starts[i] += starts[i - 1];
        for (size_t i = 0; i < work->count; i++)
            work->other_keys[starts[work->keys[i] >> shift & 0xFF]++] = work->keys[i];
        uint64_t *sorted = work->other_keys;
        work->other_keys = work->keys;
        work->keys = sorted;
    }
}

static void hash_contents(Work *work, const BobbinTree *tree, const BobbinForm *form, const uint8_t *names,
                          const uint64_t *name_lengths, const uint8_t *contents, const uint64_t *content_lengths)
{
    static const uint8_t tag = TAG_CONTENT;
    for (size_t i = 0; i < work->count; i++) {
        Change *change = work->changes + i;
        change->name = names;
        change->length = (size_t)name_lengths[i];
        change->is_gone = content_lengths[i] == BOBBIN_TREE_GONE;
        work->keys[i] = (uint64_t)place_of_name(tree, names, change->length, &change->checksum) << PLACE_SHIFT | i;
        if (change->length)
            names += change->length;
        if (change->is_gone)
            continue;
        BtPart content = {contents, (size_t)content_lengths[i]};
        BtPair pair;
        bt_pair_put(&pair, (BtPart){&tag, 1}, form, (BtPart){change->name, change->length}, content);
        bt_texts_add_parts(&work->texts, pair.parts, pair.count, change->hash);
        if (content.length)
            contents += content.length;
    }
    bt_texts_end(&work->texts);
    sort_keys(work);
}

/* Checks what came in and does what needs no lock. Where the result is not good there is nothing to end. */
static BobbinTreeStatus prepare(Work *work, const BobbinTree *tree, const BobbinForm *form, bool is_quick,
                                size_t count, const uint8_t *names, size_t names_bytes, const uint64_t *name_lengths,
                                const uint8_t *contents, size_t contents_bytes, const uint64_t *content_lengths)
{
    if (!bt_pairs_are_whole(count, names, names_bytes, name_lengths, false)
        || !bt_pairs_are_whole(count, contents, contents_bytes, content_lengths, true)
        || !bt_form_fits(form, names_bytes, contents_bytes))
        return BobbinTreeStatus_Invalid;
    /* With buckets as large as they are on average: what would most likely be given up later is not begun. */
    if (is_quick && count > QUICK_EFFORT_MAX / 2 / (tree->count / PLACES + 1))
        return BobbinTreeStatus_Slow;
    BobbinTreeStatus status = begin_work(work, tree, is_quick, count);
    if (status == BobbinTreeStatus_Ok)
        hash_contents(work, tree, form, names, name_lengths, contents, content_lengths);
    return status;
}

/* ---- what is below ---------------------------------------------------------------------------------------------- */

/* With the lock of all. */
static BobbinTreeStatus find_below(Work *work, const BobbinTreeDraft *draft)
{
    size_t count = 0;
    for (BobbinTreeDraft *one = draft->on; one != NULL; one = one->on)
        count += one->notes != NULL;
    if (count == 0)
        return BobbinTreeStatus_Ok;
    work->below = count > SIZE_MAX / sizeof(Below) ? NULL : malloc(count * sizeof(Below));
    if (work->below == NULL)
        return BobbinTreeStatus_NoMemory;
    for (BobbinTreeDraft *one = draft->on; one != NULL; one = one->on)
        if (one->notes != NULL) {
            atomic_fetch_add(&one->notes->references, 1);
            work->below[work->below_count++] = (Below){one->notes, 0};
        }
    return BobbinTreeStatus_Ok;
}

static void read_again(Work *work)
{
    for (size_t i = 0; i < work->below_count; i++)
        work->below[i].read = 0;
}

/* The first of the places from `from` on that is not less than `place`. Steps that double find it soon where it is near,
 * and still soon where a small draft stands on a large one. */
static size_t seek(const Level *level, size_t from, size_t place)
{
    size_t step = 1, low = from, high = from;
    while (high < level->count && level->places[high] < place) {
        low = high + 1;
        high = level->count - high > step ? high + step : level->count;
        step *= 2;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (level->places[middle] < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const BtBucket *bucket_below(Work *work, const BobbinTree *tree, size_t place)
{
    for (size_t i = 0; i < work->below_count; i++) {
        const Notes *notes = work->below[i].notes;
        size_t at = work->below[i].read = seek(&notes->levels[0], work->below[i].read, place);
        if (at < notes->levels[0].count && notes->levels[0].places[at] == place)
            return notes->buckets[at];
    }
    return tree->buckets[place];
}

/* ---- notes ------------------------------------------------------------------------------------------------------ */

static size_t different_places(const Work *work, unsigned bits)
{
    size_t count = 1;
    for (size_t i = 1; i < work->count; i++)
        count += place_of(work->keys[i]) >> bits != place_of(work->keys[i - 1]) >> bits;
    return count;
}

/* Room for all notes that there will be. Their number is bounded by the number of places, so no size is too large. */
static Notes *new_notes(const Work *work)
{
    size_t rooms[LEVELS], sum = 0;
    unsigned bits = 0;
    for (size_t i = 0; i < LEVELS; bits += BRANCH_BITS[i++])
        sum += rooms[i] = different_places(work, bits);
    Notes *notes =
        malloc(sizeof *notes + rooms[0] * sizeof(BtBucket *) + sum * (BT_HASH_BYTES + sizeof(uint16_t)));
    if (notes == NULL)
        return NULL;
    atomic_init(&notes->references, 1);
    notes->buckets = (BtBucket **)(notes + 1);
    uint8_t(*hashes)[BT_HASH_BYTES] = (uint8_t(*)[BT_HASH_BYTES])(notes->buckets + rooms[0]);
    uint16_t *places = (uint16_t *)(hashes + sum);
    for (size_t i = 0; i < LEVELS; i++) {
        notes->levels[i] = (Level){places, hashes, 0};
        places += rooms[i];
        hashes += rooms[i];
    }
    return notes;
}

/* Notes what the changes number `from` to `to`, all of one place, make of its bucket. */
static BobbinTreeStatus note_bucket(Notes *notes, Work *work, const BobbinTree *tree, size_t from, size_t to)
{
    const size_t place = place_of(work->keys[from]), count = to - from;
    const BtBucket *before = bucket_below(work, tree, place);
    const size_t all = count + (before == NULL ? 0 : before->count);
    if (work->is_quick) {
        if (all > (QUICK_EFFORT_MAX - work->effort) / (count + 1))
            return BobbinTreeStatus_Slow;
        work->effort += all * (count + 1);
    }
    if (!bt_entries_begin(&work->entries, before, count))
        return BobbinTreeStatus_NoMemory;
    for (size_t i = from; i < to; i++) {
        const Change *change = change_of(work, work->keys[i]);
        BtLongName *shared = bt_entries_remove(&work->entries, change->name, change->length, change->checksum);
        if (change->is_gone)
            continue;
        const uint8_t *name = shared == NULL ? change->name : shared->bytes;
        bt_entries_insert(&work->entries, (BtEntry){change->hash, name, change->length, shared, change->checksum});
    }
    BtBucket *bucket = NULL;
    if (work->entries.count) {
        bucket = bt_entries_bucket(&work->entries);
        if (bucket == NULL)
            return BobbinTreeStatus_NoMemory;
    }
    Level *level = &notes->levels[0];
    uint8_t *hash = level->hashes[level->count];
    notes->buckets[level->count] = bucket;
    level->places[level->count++] = (uint16_t)place;
    if (bucket == NULL)
        memcpy(hash, EMPTY, BT_HASH_BYTES);
    else if (bucket->count == 1)
        memcpy(hash, bt_bucket_hashes(bucket), BT_HASH_BYTES);
    else {
        static const uint8_t tag = TAG_BUCKET;
        BtPart parts[] = {{&tag, 1}, {bt_bucket_hashes(bucket), bucket->count * BT_HASH_BYTES}};
        bt_texts_add_parts(&work->texts, parts, 2, hash);
    }
    return BobbinTreeStatus_Ok;
}

static BobbinTreeStatus note_buckets(Notes *notes, Work *work, const BobbinTree *tree)
{
    for (size_t from = 0, to; from < work->count; from = to) {
        for (to = from + 1; to < work->count && place_of(work->keys[to]) == place_of(work->keys[from]);)
            to++;
        BobbinTreeStatus status = note_bucket(notes, work, tree, from, to);
        if (status != BobbinTreeStatus_Ok)
            return status;
    }
    bt_texts_end(&work->texts);
    return BobbinTreeStatus_Ok;
}

static const uint8_t *stored_children(const BobbinTree *tree, size_t level)
{
    switch (level) {
    case 0:
        return tree->bucket_hashes[0];
    case 1:
        return tree->low_hashes[0];
    default:
        return tree->high_hashes[0];
    }
}

/* Puts the children that a level notes for a branch, from the number `at` on, where they belong; returns the number of
 * the first that is another branch's. */
static size_t put_children(uint8_t *children, const Level *level, size_t at, size_t first, size_t count)
{
    for (; at < level->count && level->places[at] < first + count; at++)
        memcpy(children + (level->places[at] - first) * BT_HASH_BYTES, level->hashes[at], BT_HASH_BYTES);
    return at;
}

static bool is_all_zeros(const uint8_t *bytes, size_t count)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}

/* Notes the hashes of all branches above the children that one level notes. */
static void note_branches(Notes *notes, Work *work, const BobbinTree *tree, size_t number, uint8_t *top)
{
    const Level *level = &notes->levels[number];
    const size_t children_count = (size_t)1 << BRANCH_BITS[number], bytes = children_count * BT_HASH_BYTES;
    const uint8_t *stored = stored_children(tree, number);
    read_again(work);
    for (size_t at = 0; at < level->count;) {
        size_t parent = (size_t)level->places[at] >> BRANCH_BITS[number], first = parent << BRANCH_BITS[number];
        uint8_t *text = bt_texts_next(&work->texts), *out = top;
        text[0] = TAG_BRANCH;
        memcpy(text + 1, stored + first * BT_HASH_BYTES, bytes);
        for (size_t i = work->below_count; i-- > 0;) {
            Below *below = work->below + i;
            const Level *lower = &below->notes->levels[number];
            below->read = put_children(text + 1, lower, seek(lower, below->read, first), first, children_count);
        }
        at = put_children(text + 1, level, at, first, children_count);
        if (number + 1 < LEVELS) {
            Level *above = &notes->levels[number + 1];
            above->places[above->count] = (uint16_t)parent;
            out = above->hashes[above->count++];
        }
        if (is_all_zeros(text + 1, bytes))
            memcpy(out, EMPTY, BT_HASH_BYTES);
        else
            bt_texts_add(&work->texts, 1 + bytes, out);
    }
    bt_texts_end(&work->texts);
}

/* What the changes make of a tree and of what is below, with the tree's lock. There must be changes. A null pointer,
 * and the reason, where it is not done. */
static Notes *note_changes(Work *work, const BobbinTree *tree, uint8_t *top, BobbinTreeStatus *status)
{
    Notes *notes = new_notes(work);
    *status = notes == NULL ? BobbinTreeStatus_NoMemory : note_buckets(notes, work, tree);
    if (*status != BobbinTreeStatus_Ok) {
        release_notes(notes);
        return NULL;
    }
    for (size_t number = 0; number < LEVELS; number++)
        note_branches(notes, work, tree, number, top);
    return notes;
}

/* With the lock of all, as the next one. */
static bool has_its_changes(const BobbinTreeDraft *draft)
{
    return draft->notes != NULL || memcmp(draft->base, draft->top, BT_HASH_BYTES) != 0;
}

/* A draft that has let go of its notes has nothing more to give, whatever the tree has become since. */
static bool stands_on(const BobbinTreeDraft *draft, const BobbinTree *tree)
{
    bool is_whole = draft->notes != NULL || memcmp(draft->base, draft->top, BT_HASH_BYTES) == 0;
    return is_whole && memcmp(tree->top, draft->base, BT_HASH_BYTES) == 0;
}

/* With the tree's lock. The notes keep their buckets, for an update of a draft of another tree may be reading them. */
static void become(BobbinTree *tree, const Notes *notes)
{
    const Level *levels = notes->levels;
    size_t count = tree->count;
    for (size_t i = 0; i < levels[0].count; i++) {
        BtBucket **bucket = tree->buckets + levels[0].places[i];
        count -= *bucket == NULL ? 0 : (*bucket)->count;
        bt_bucket_release(*bucket);
        *bucket = notes->buckets[i];
        count += *bucket == NULL ? 0 : (*bucket)->count;
        bt_bucket_keep(*bucket);
        memcpy(tree->bucket_hashes[levels[0].places[i]], levels[0].hashes[i], BT_HASH_BYTES);
    }
    for (size_t i = 0; i < levels[1].count; i++)
        memcpy(tree->low_hashes[levels[1].places[i]], levels[1].hashes[i], BT_HASH_BYTES);
    for (size_t i = 0; i < levels[2].count; i++)
        memcpy(tree->high_hashes[levels[2].places[i]], levels[2].hashes[i], BT_HASH_BYTES);
    tree->count = count;
}

/* Takes a tree's lock; one that is to be quick does not wait for it. */
static BobbinTreeStatus enter(BobbinTree *tree, bool is_quick)
{
    if (is_quick)
        return pthread_mutex_trylock(&tree->lock) == 0 ? BobbinTreeStatus_Ok : BobbinTreeStatus_Slow;
    pthread_mutex_lock(&tree->lock);
    return BobbinTreeStatus_Ok;
}

static void leave(BobbinTree *tree)
{
    pthread_mutex_unlock(&tree->lock);
}

/* With the tree's lock. */
static BobbinTreeStatus update_draft(BobbinTreeDraft *draft, Work *work, uint8_t *top)
{
    pthread_mutex_lock(&links);
    memcpy(top, draft->top, BT_HASH_BYTES);
    BobbinTreeStatus status = BobbinTreeStatus_Ok;
    if (work->count)
        status = has_its_changes(draft) ? BobbinTreeStatus_Used : find_below(work, draft);
    pthread_mutex_unlock(&links);
    if (status != BobbinTreeStatus_Ok || work->count == 0)
        return status;
    Notes *notes = note_changes(work, draft->tree, top, &status);
    if (notes == NULL)
        return status;
    /* All updates of this draft have the lock of its tree, so none has come before. */
    pthread_mutex_lock(&links);
    draft->notes = notes;
    memcpy(draft->top, top, BT_HASH_BYTES);
    pthread_mutex_unlock(&links);
    return BobbinTreeStatus_Ok;
}

/* ---- the functions of the header -------------------------------------------------------------------------------- */

int bobbin_tree_version(void)
{
    return BOBBIN_TREE_VERSION;
}

int bobbin_tree_is_fast(void)
{
    return bt_sha256() != &BT_SHA256_PORTABLE;
}

BobbinTree *bobbin_tree_new(void)
{
    BobbinTree *tree = calloc(1, sizeof *tree);
    if (tree == NULL)
        return NULL;
    if (pthread_mutex_init(&tree->lock, NULL) != 0) {
        free(tree);
        return NULL;
    }
    atomic_init(&tree->references, 1);
    tree->sha256 = bt_sha256();
    make_checksums(tree->checksums);
    return tree;
}

void bobbin_tree_free(BobbinTree *tree)
{
    if (tree != NULL)
        release_tree(tree);
}

size_t bobbin_tree_len(BobbinTree *tree)
{
    if (tree == NULL)
        return 0;
    return tree->count;
}

int bobbin_tree_contains(BobbinTree *tree, const uint8_t *name, size_t length)
{
    if (tree == NULL || (name == NULL && length))
        return 0;
    uint32_t checksum;
    size_t place = place_of_name(tree, name, length, &checksum);
    enter(tree, false);
    bool is_there = bt_bucket_has(tree->buckets[place], name, length, checksum);
    leave(tree);
    return is_there;
}

BobbinTreeStatus bobbin_tree_top(BobbinTree *tree, uint8_t *out)
{
    if (tree == NULL || out == NULL)
        return BobbinTreeStatus_NullPointer;
    pthread_mutex_lock(&links);
    memcpy(out, tree->top, BT_HASH_BYTES);
    pthread_mutex_unlock(&links);
    return BobbinTreeStatus_Ok;
}

BobbinTreeStatus bobbin_tree_merge(BobbinTree *tree, BobbinTreeDraft *draft, int is_quick)
{
    if (tree == NULL || draft == NULL)
        return BobbinTreeStatus_NullPointer;
    BobbinTreeStatus status = enter(tree, is_quick != 0);
    if (status != BobbinTreeStatus_Ok)
        return status;
    Settled settled = {NULL, NULL};
    pthread_mutex_lock(&links);
    if (stands_on(draft, tree)) {
        settled = settle(draft);
        memcpy(tree->top, draft->top, BT_HASH_BYTES);
    } else
        status = BobbinTreeStatus_Stale;
    pthread_mutex_unlock(&links);
    if (settled.notes != NULL)
        become(tree, settled.notes);
    leave(tree);
    release_settled(settled);
    return status;
}

BobbinTreeDraft *bobbin_tree_draft_new(BobbinTree *tree, BobbinTreeDraft *on)
{
    if (tree == NULL)
        return NULL;
    BobbinTreeDraft *draft = malloc(sizeof *draft);
    if (draft == NULL)
        return NULL;
    atomic_init(&draft->references, 1);
    draft->tree = tree;
    draft->on = on;
    draft->notes = NULL;
    atomic_fetch_add(&tree->references, 1);
    if (on != NULL)
        atomic_fetch_add(&on->references, 1);
    pthread_mutex_lock(&links);
    memcpy(draft->base, on == NULL ? tree->top : on->top, BT_HASH_BYTES);
    pthread_mutex_unlock(&links);
    memcpy(draft->top, draft->base, BT_HASH_BYTES);
    return draft;
}

void bobbin_tree_draft_free(BobbinTreeDraft *draft)
{
    release_draft(draft);
}

BobbinTreeStatus bobbin_tree_draft_update(BobbinTreeDraft *draft, const BobbinForm *form, int is_quick, size_t count,
                                          const uint8_t *names, size_t names_bytes, const uint64_t *name_lengths,
                                          const uint8_t *contents, size_t contents_bytes,
                                          const uint64_t *content_lengths, uint8_t *out)
{
    if (draft == NULL || out == NULL)
        return BobbinTreeStatus_NullPointer;
    Work work;
    BobbinTreeStatus status = prepare(&work, draft->tree, form, is_quick != 0, count, names, names_bytes, name_lengths,
                                      contents, contents_bytes, content_lengths);
    if (status != BobbinTreeStatus_Ok)
        return status;
    status = enter(draft->tree, work.is_quick);
    if (status == BobbinTreeStatus_Ok) {
        status = update_draft(draft, &work, out);
        leave(draft->tree);
    }
    end_work(&work);
    return status;
}

/* In one piece: whoever else changes the tree does so before or after. */
BobbinTreeStatus bobbin_tree_update(BobbinTree *tree, const BobbinForm *form, int is_quick, size_t count,
                                    const uint8_t *names, size_t names_bytes, const uint64_t *name_lengths,
                                    const uint8_t *contents, size_t contents_bytes, const uint64_t *content_lengths,
                                    uint8_t *out)
{
    if (tree == NULL || out == NULL)
        return BobbinTreeStatus_NullPointer;
    Work work;
    BobbinTreeStatus status = prepare(&work, tree, form, is_quick != 0, count, names, names_bytes, name_lengths,
                                      contents, contents_bytes, content_lengths);
    if (status != BobbinTreeStatus_Ok)
        return status;
    Notes *notes = NULL;
    status = enter(tree, work.is_quick);
    if (status == BobbinTreeStatus_Ok) {
        memcpy(out, tree->top, BT_HASH_BYTES);
        if (count)
            notes = note_changes(&work, tree, out, &status);
        if (notes != NULL) {
            pthread_mutex_lock(&links);
            memcpy(tree->top, out, BT_HASH_BYTES);
            pthread_mutex_unlock(&links);
            become(tree, notes);
        }
        leave(tree);
    }
    release_notes(notes);
    end_work(&work);
    return status;
}

BobbinTreeStatus bobbin_tree_draft_settle(BobbinTreeDraft *draft)
{
    if (draft == NULL)
        return BobbinTreeStatus_NullPointer;
    pthread_mutex_lock(&links);
    Settled settled = settle(draft);
    pthread_mutex_unlock(&links);
    release_settled(settled);
    return BobbinTreeStatus_Ok;
}
