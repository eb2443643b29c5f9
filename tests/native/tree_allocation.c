/* Memory that runs out under a tree, at each place where it can: the status says so, and nothing has changed.
 *
 * Linked as allocation.c is.
 */
#include <stdbool.h>

#include "changes.h"

static long calls_left = -1;
static size_t bytes_asked_for;

static bool has_run_out(size_t bytes)
{
    bytes_asked_for += bytes;
    return calls_left >= 0 && calls_left-- == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    return has_run_out(size) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return has_run_out(count * size) ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return has_run_out(size) ? NULL : __real_realloc(old, size);
}

static uint8_t before[BOBBIN_TREE_HASH_BYTES], hash[BOBBIN_TREE_HASH_BYTES];

static void check_unchanged(BobbinTree *tree, size_t count)
{
    CHECK(bobbin_tree_len(tree) == count);
    CHECK(bobbin_tree_top(tree, hash) == BobbinTreeStatus_Ok && memcmp(hash, before, sizeof hash) == 0);
}

/* How often it failed before it went well. */
static long check_update(BobbinTree *tree, const Changes *changes)
{
    size_t count = bobbin_tree_len(tree);
    CHECK(bobbin_tree_top(tree, before) == BobbinTreeStatus_Ok);
    for (long n = 0;; n++) {
        calls_left = n;
        BobbinTreeStatus status = bobbin_tree_update(tree, NULL, 0, CHANGES(changes), hash);
        calls_left = -1;
        if (status == BobbinTreeStatus_Ok)
            return n;
        CHECK(status == BobbinTreeStatus_NoMemory);
        check_unchanged(tree, count);
    }
}

/* On a draft, so that there are notes to read. It is the same draft every time: a failure leaves it as it was. */
static long check_draft(BobbinTree *tree, BobbinTreeDraft *on, const Changes *changes)
{
    BobbinTreeDraft *draft = bobbin_tree_draft_new(tree, on);
    CHECK(draft != NULL);
    size_t count = bobbin_tree_len(tree);
    CHECK(bobbin_tree_top(tree, before) == BobbinTreeStatus_Ok);
    for (long n = 0;; n++) {
        calls_left = n;
        BobbinTreeStatus status = bobbin_tree_draft_update(draft, NULL, 0, CHANGES(changes), hash);
        calls_left = -1;
        check_unchanged(tree, count);
        if (status == BobbinTreeStatus_Ok) {
            bobbin_tree_draft_free(draft);
            return n;
        }
        CHECK(status == BobbinTreeStatus_NoMemory);
    }
}

/* Long names in one bucket: each of them is asked for once, by whichever draft has it first. */
static void check_long_names(void)
{
    BobbinTree *tree = bobbin_tree_new();
    CHECK(tree != NULL);
    Changes all = {0}, first = {0}, gone = {0};
    change_long(&all, 0, LONG_NAMES, 1);
    change_long(&first, 0, 1, 2);
    change_long(&gone, 1, 2, 0);
    /* What is worked with, the notes, entries, a bucket, and two pieces for each name. */
    CHECK(check_update(tree, &all) == 4 + 2 * LONG_NAMES);
    size_t before_it = bytes_asked_for;
    BobbinTreeDraft *draft = bobbin_tree_draft_new(tree, NULL);
    CHECK(draft != NULL);
    CHECK(bobbin_tree_draft_update(draft, NULL, 1, CHANGES(&first), hash) == BobbinTreeStatus_Ok);
    BobbinTreeDraft *above = bobbin_tree_draft_new(tree, draft);
    CHECK(above != NULL);
    CHECK(bobbin_tree_draft_update(above, NULL, 1, CHANGES(&gone), hash) == BobbinTreeStatus_Ok);
    CHECK(bytes_asked_for - before_it < 4 * LONG_BYTES);
    /* Names that go and come again within one update, and a name that only a draft has. */
    change_long(&gone, 1, 2, 3);
    CHECK(check_draft(tree, above, &gone) >= 7);
    CHECK(bobbin_tree_merge(tree, draft, 1) == BobbinTreeStatus_Ok);
    CHECK(bobbin_tree_contains(tree, all.names, (size_t)all.name_lengths[0]));
    CHECK(bobbin_tree_merge(tree, above, 1) == BobbinTreeStatus_Ok);
    CHECK(bobbin_tree_contains(tree, all.names, (size_t)all.name_lengths[0]));
    CHECK(!bobbin_tree_contains(tree, gone.names, (size_t)gone.name_lengths[0]));
    CHECK(bobbin_tree_len(tree) == LONG_NAMES - 1);
    bobbin_tree_free(tree);
    bobbin_tree_draft_free(draft);
    bobbin_tree_draft_free(above);
}

int main(void)
{
    calls_left = 0;
    CHECK(bobbin_tree_new() == NULL);
    calls_left = -1;
    BobbinTree *tree = bobbin_tree_new();
    CHECK(tree != NULL);
    calls_left = 0;
    CHECK(bobbin_tree_draft_new(tree, NULL) == NULL);

    Changes some = {0}, others = {0};
    change_numbers(&some, 0, 20, 1);
    change_numbers(&others, 10, 30, 2);
    /* One name so often that the room for the entries of its bucket must grow. */
    for (int i = 0; i < 100; i++)
        change_numbers(&others, 0, 1, i % 3);
    /* What is worked with, the notes, entries, and 20 buckets. */
    CHECK(check_update(tree, &some) == 23);
    BobbinTreeDraft *draft = bobbin_tree_draft_new(tree, NULL);
    CHECK(draft != NULL);
    CHECK(bobbin_tree_draft_update(draft, NULL, 0, CHANGES(&others), hash) == BobbinTreeStatus_Ok);
    /* The same; what is below, and more room for entries. */
    CHECK(check_draft(tree, draft, &others) >= 24);
    CHECK(check_update(tree, &others) >= 24);
    check_long_names();

    calls_left = 0;
    CHECK(bobbin_merkle_root(NULL, NULL, 0, CHANGES(&some), hash) == BobbinTreeStatus_NoMemory);
    /* Neither a refusal nor a merge nor an end needs memory. */
    calls_left = 0;
    CHECK(bobbin_tree_merge(tree, draft, 0) == BobbinTreeStatus_Stale);
    CHECK(bobbin_tree_draft_settle(draft) == BobbinTreeStatus_Ok);
    bobbin_tree_draft_free(draft);
    calls_left = -1;
    CHECK((draft = bobbin_tree_draft_new(tree, NULL)) != NULL);
    CHECK(bobbin_tree_draft_update(draft, NULL, 0, CHANGES(&some), hash) == BobbinTreeStatus_Ok);
    calls_left = 0;
    CHECK(bobbin_tree_merge(tree, draft, 0) == BobbinTreeStatus_Ok);
    bobbin_tree_draft_free(draft);
    bobbin_tree_free(tree);
    CHECK(calls_left == 0);
    puts("a tree survives memory that runs out");
    return 0;
}
