/* The contract of content_tree.h and merkle.h, from a program that is linked against the built library.
 *
 * It writes down the hashes that it came to. Whoever started it knows them from the tree in Python.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "changes.h"

enum { NAMES = 300, THREADS = 4, ROUNDS = 12, OF_A_ROUND = 20, TRIES = 200000 };

static uint8_t hash[BOBBIN_TREE_HASH_BYTES];

static void write_hash(const char *of)
{
    printf("%s ", of);
    for (size_t i = 0; i < sizeof hash; i++)
        printf("%02x", hash[i]);
    puts("");
}

static BobbinTree *new_tree(void)
{
    BobbinTree *tree = bobbin_tree_new();
    CHECK(tree != NULL);
    return tree;
}

static BobbinTreeDraft *new_draft(BobbinTree *tree, BobbinTreeDraft *on, int from, int to, int round)
{
    BobbinTreeDraft *draft = bobbin_tree_draft_new(tree, on);
    Changes changes = {0};
    change_numbers(&changes, from, to, round);
    CHECK(draft != NULL);
    CHECK(bobbin_tree_draft_update(draft, NULL, 0, CHANGES(&changes), hash) == BobbinTreeStatus_Ok);
    return draft;
}

static void fill(BobbinTree *tree)
{
    Changes changes = {0};
    change_numbers(&changes, 0, NAMES, 1);
    CHECK(bobbin_tree_update(tree, NULL, 0, CHANGES(&changes), hash) == BobbinTreeStatus_Ok);
}

static void check_story(void)
{
    BobbinTree *tree = new_tree();
    CHECK(bobbin_tree_top(tree, hash) == BobbinTreeStatus_Ok);
    write_hash("empty");
    fill(tree);
    write_hash("filled");
    BobbinTreeDraft *first = new_draft(tree, NULL, 0, 100, 2);
    write_hash("first");
    BobbinTreeDraft *second = new_draft(tree, first, 50, 150, 0);
    write_hash("second");
    BobbinTreeDraft *third = new_draft(tree, second, 100, 120, 3);
    write_hash("third");
    CHECK(bobbin_tree_merge(tree, second, 0) == BobbinTreeStatus_Stale && bobbin_tree_len(tree) == NAMES);
    CHECK(bobbin_tree_merge(tree, first, 0) == BobbinTreeStatus_Ok);
    CHECK(bobbin_tree_merge(tree, first, 0) == BobbinTreeStatus_Stale);
    bobbin_tree_draft_free(first);
    CHECK(bobbin_tree_merge(tree, second, 0) == BobbinTreeStatus_Ok && bobbin_tree_len(tree) == NAMES - 100);
    CHECK(bobbin_tree_contains(tree, BYTES("name 49")) && !bobbin_tree_contains(tree, BYTES("name 50")));
    CHECK(bobbin_tree_merge(tree, third, 0) == BobbinTreeStatus_Ok);
    bobbin_tree_draft_free(second);
    bobbin_tree_draft_free(third);
    CHECK(bobbin_tree_top(tree, hash) == BobbinTreeStatus_Ok);
    write_hash("merged");
    bobbin_tree_free(tree);
}

/* A draft whose notes are gone is not merged again when the tree is what it once stood on. */
static void check_second_merge(void)
{
    BobbinTree *tree = new_tree();
    BobbinTreeDraft *draft = new_draft(tree, NULL, 0, 1, 1);
    CHECK(bobbin_tree_merge(tree, draft, 0) == BobbinTreeStatus_Ok);
    Changes changes = {0};
    change_numbers(&changes, 0, 1, 0);
    CHECK(bobbin_tree_update(tree, NULL, 0, CHANGES(&changes), hash) == BobbinTreeStatus_Ok);
    CHECK(bobbin_tree_len(tree) == 0);
    CHECK(bobbin_tree_merge(tree, draft, 0) == BobbinTreeStatus_Stale);
    CHECK(bobbin_tree_top(tree, hash) == BobbinTreeStatus_Ok && hash[0] == 0);
    bobbin_tree_draft_free(draft);
    bobbin_tree_free(tree);
}

static void check_refusals(void)
{
    BobbinTree *tree = new_tree();
    BobbinTreeDraft *draft = bobbin_tree_draft_new(tree, NULL);
    const BobbinForm hollow = {NULL, 1, NULL, 0};
    Changes changes = {0};
    change_numbers(&changes, 0, 3, 1);
    CHECK(draft != NULL);
    CHECK(bobbin_tree_draft_new(NULL, NULL) == NULL);
    CHECK(bobbin_tree_top(NULL, hash) == BobbinTreeStatus_NullPointer);
    CHECK(bobbin_tree_top(tree, NULL) == BobbinTreeStatus_NullPointer);
    CHECK(bobbin_tree_update(NULL, NULL, 0, CHANGES(&changes), hash) == BobbinTreeStatus_NullPointer);
    CHECK(bobbin_tree_update(tree, NULL, 0, CHANGES(&changes), NULL) == BobbinTreeStatus_NullPointer);
    CHECK(bobbin_tree_draft_update(NULL, NULL, 0, CHANGES(&changes), hash) == BobbinTreeStatus_NullPointer);
    CHECK(bobbin_tree_draft_update(draft, NULL, 0, CHANGES(&changes), NULL) == BobbinTreeStatus_NullPointer);
    CHECK(bobbin_tree_merge(NULL, draft, 0) == BobbinTreeStatus_NullPointer);
    CHECK(bobbin_tree_merge(tree, NULL, 0) == BobbinTreeStatus_NullPointer);
    CHECK(bobbin_tree_draft_settle(NULL) == BobbinTreeStatus_NullPointer);
    CHECK(bobbin_merkle_root(NULL, NULL, 0, CHANGES(&changes), NULL) == BobbinTreeStatus_NullPointer);
    CHECK(bobbin_merkle_root(NULL, NULL, 1, CHANGES(&changes), hash) == BobbinTreeStatus_NullPointer);
    CHECK(bobbin_tree_update(tree, &hollow, 0, CHANGES(&changes), hash) == BobbinTreeStatus_Invalid);
    CHECK(bobbin_merkle_root(&hollow, NULL, 0, CHANGES(&changes), hash) == BobbinTreeStatus_Invalid);
    for (int i = 0; i < 4; i++) {
        Changes wrong = changes;
        /* A byte too many or missing, a length that wraps around, and no name that is none. */
        if (i < 2)
            *(i ? &wrong.names_bytes : &wrong.contents_bytes) -= 1;
        else
            wrong.name_lengths[0] = i == 2 ? UINT64_MAX - 4 : BOBBIN_TREE_GONE;
        if (i == 2)
            wrong.name_lengths[1] += changes.name_lengths[0] + 5;
        CHECK(bobbin_tree_update(tree, NULL, 0, CHANGES(&wrong), hash) == BobbinTreeStatus_Invalid);
        CHECK(bobbin_tree_draft_update(draft, NULL, 0, CHANGES(&wrong), hash) == BobbinTreeStatus_Invalid);
        CHECK(bobbin_merkle_root(NULL, NULL, 0, CHANGES(&wrong), hash) == BobbinTreeStatus_Invalid);
    }
    CHECK(bobbin_tree_draft_update(draft, NULL, 0, CHANGES(&changes), hash) == BobbinTreeStatus_Ok);
    CHECK(bobbin_tree_draft_update(draft, NULL, 0, CHANGES(&changes), hash) == BobbinTreeStatus_Used);
    CHECK(bobbin_tree_len(tree) == 0 && bobbin_tree_len(NULL) == 0);
    CHECK(!bobbin_tree_contains(NULL, BYTES("name 0")) && !bobbin_tree_contains(tree, NULL, 1));
    bobbin_tree_draft_free(draft);
    bobbin_tree_free(tree);
    bobbin_tree_draft_free(NULL);
    bobbin_tree_free(NULL);
}

/* A tree and three drafts, each on the one before, are freed in the order that a number says, after `merged` of them
 * were merged and some one was settled without. A fourth draft takes its changes when all of them are gone: it has kept
 * alive what it reads. */
static void check_order(int order, int merged, int settled)
{
    BobbinTree *tree = new_tree();
    BobbinTreeDraft *drafts[3] = {NULL};
    fill(tree);
    for (int i = 0; i < 3; i++)
        drafts[i] = new_draft(tree, i ? drafts[i - 1] : NULL, 10 * i, 20 * i + 10, i + 2);
    BobbinTreeDraft *above = bobbin_tree_draft_new(tree, drafts[2]);
    CHECK(above != NULL);
    for (int i = 0; i < merged; i++)
        CHECK(bobbin_tree_merge(tree, drafts[i], 0) == BobbinTreeStatus_Ok);
    if (settled < 3)
        CHECK(bobbin_tree_draft_settle(drafts[settled]) == BobbinTreeStatus_Ok);
    int left[4] = {0, 1, 2, 3};
    for (int count = 4; count; order /= count--) {
        int at = order % count, which = left[at];
        left[at] = left[count - 1];
        if (which == 3)
            bobbin_tree_free(tree);
        else
            bobbin_tree_draft_free(drafts[which]);
    }
    Changes changes = {0};
    change_numbers(&changes, 5, 25, 0);
    CHECK(bobbin_tree_draft_update(above, NULL, 0, CHANGES(&changes), hash) == BobbinTreeStatus_Ok);
    bobbin_tree_draft_free(above);
}

static void check_lifetimes(void)
{
    uint8_t expected[BOBBIN_TREE_HASH_BYTES];
    for (int merged = 0; merged <= 3; merged++)
        for (int order = 0; order < 24; order++) {
            /* Whatever is merged already, what is read is the same. */
            check_order(order, merged, merged ? merged - 1 : 3);
            if (merged == 0 && order == 0)
                memcpy(expected, hash, sizeof hash);
            CHECK(memcmp(expected, hash, sizeof hash) == 0);
        }
    write_hash("above");
    /* A draft that was settled before its time is a bad one, and harmless. */
    for (int settled = 0; settled < 3; settled++)
        check_order(7 * settled, 0, settled);
}

/* Long names, which buckets share, outlive whichever draft or tree was the first to have them. */
static void check_long_names(void)
{
    BobbinTree *tree = new_tree(), *other = new_tree();
    Changes most = {0}, two = {0}, one = {0};
    change_long(&most, 0, LONG_NAMES - 1, 1);
    CHECK(bobbin_tree_update(tree, NULL, 0, CHANGES(&most), hash) == BobbinTreeStatus_Ok);
    CHECK(bobbin_tree_update(other, NULL, 0, CHANGES(&most), hash) == BobbinTreeStatus_Ok);
    change_long(&two, 3, 4, 0);
    change_long(&two, LONG_NAMES - 1, LONG_NAMES, 2);
    change_long(&one, 0, 1, 3);
    BobbinTreeDraft *draft = bobbin_tree_draft_new(tree, NULL), *above = bobbin_tree_draft_new(other, draft);
    CHECK(draft != NULL && above != NULL);
    CHECK(bobbin_tree_draft_update(draft, NULL, 0, CHANGES(&two), hash) == BobbinTreeStatus_Ok);
    write_hash("long");
    CHECK(bobbin_tree_merge(other, draft, 0) == BobbinTreeStatus_Ok);
    bobbin_tree_free(tree);
    bobbin_tree_draft_free(draft);
    CHECK(bobbin_tree_draft_update(above, NULL, 0, CHANGES(&one), hash) == BobbinTreeStatus_Ok);
    bobbin_tree_draft_free(above);
    CHECK(bobbin_tree_update(other, NULL, 0, CHANGES(&one), hash) == BobbinTreeStatus_Ok);
    write_hash("longer");
    CHECK(bobbin_tree_len(other) == LONG_NAMES - 1);
    CHECK(bobbin_tree_contains(other, one.names, (size_t)one.name_lengths[0]));
    CHECK(!bobbin_tree_contains(other, two.names, (size_t)two.name_lengths[0]));
    bobbin_tree_free(other);
}

static void check_roots(void)
{
    const BobbinForm form = {BYTES("head"), BYTES("middle")};
    char text[4 * TEXT_BYTES_MAX];
    for (int count = 0; count < 8; count++) {
        Changes changes = {0};
        change_numbers(&changes, 0, count, 1);
        CHECK(bobbin_merkle_root(&form, BYTES("node"), CHANGES(&changes), hash) == BobbinTreeStatus_Ok);
        snprintf(text, sizeof text, "root-%d", count);
        write_hash(text);
    }
}

/* All change one tree at once, and none is told that another one was quicker. */
static void *change_some(void *given)
{
    BobbinTree *tree = given;
    static atomic_int next;
    int first = atomic_fetch_add(&next, 1) * ROUNDS * OF_A_ROUND;
    for (int round = 0; round < ROUNDS; round++, first += OF_A_ROUND) {
        Changes changes = {0};
        uint8_t out[BOBBIN_TREE_HASH_BYTES];
        change_numbers(&changes, first, first + OF_A_ROUND, 1);
        CHECK(bobbin_tree_update(tree, NULL, 0, CHANGES(&changes), out) == BobbinTreeStatus_Ok);
        CHECK(bobbin_tree_contains(tree, changes.names, (size_t)changes.name_lengths[0]));
        BobbinTreeDraft *draft = bobbin_tree_draft_new(tree, NULL);
        CHECK(draft != NULL);
        CHECK(bobbin_tree_draft_update(draft, NULL, 0, CHANGES(&changes), out) == BobbinTreeStatus_Ok);
        bobbin_tree_draft_free(draft);
    }
    return NULL;
}

static atomic_bool is_over;

/* So much for one bucket that it is no quick update: it goes through all that is there for every change. */
static void change_one_often(Changes *changes)
{
    for (int i = 0; i < CHANGES_MAX; i++)
        change_numbers(changes, 0, 1, i + 1);
}

static void *hold_a_tree(void *tree)
{
    Changes changes = {0};
    uint8_t out[BOBBIN_TREE_HASH_BYTES];
    change_one_often(&changes);
    while (!is_over)
        CHECK(bobbin_tree_update(tree, NULL, 0, CHANGES(&changes), out) == BobbinTreeStatus_Ok);
    return NULL;
}

static void check_quick(void)
{
    BobbinTree *tree = new_tree(), *other = new_tree();
    Changes few = {0}, many = {0};
    uint8_t before[BOBBIN_TREE_HASH_BYTES];
    change_numbers(&few, 0, 10, 1);
    change_one_often(&many);
    CHECK(bobbin_tree_update(tree, NULL, 1, CHANGES(&few), before) == BobbinTreeStatus_Ok);
    CHECK(bobbin_tree_update(tree, NULL, 1, CHANGES(&many), hash) == BobbinTreeStatus_Slow);
    BobbinTreeDraft *draft = bobbin_tree_draft_new(tree, NULL);
    CHECK(draft != NULL);
    CHECK(bobbin_tree_draft_update(draft, NULL, 1, CHANGES(&many), hash) == BobbinTreeStatus_Slow);
    CHECK(bobbin_tree_top(tree, hash) == BobbinTreeStatus_Ok && memcmp(hash, before, sizeof hash) == 0);
    CHECK(bobbin_tree_draft_update(draft, NULL, 0, CHANGES(&many), hash) == BobbinTreeStatus_Ok);
    bobbin_tree_draft_free(draft);

    /* What another thread has is not waited for. */
    pthread_t thread;
    CHECK((draft = bobbin_tree_draft_new(tree, NULL)) != NULL);
    CHECK(pthread_create(&thread, NULL, hold_a_tree, tree) == 0);
    int left = TRIES;
    while (left && bobbin_tree_update(tree, NULL, 1, CHANGES(&few), hash) != BobbinTreeStatus_Slow)
        left--;
    while (left && bobbin_tree_merge(tree, draft, 1) != BobbinTreeStatus_Slow)
        left--;
    CHECK(left);
    /* Nobody has the other one. */
    for (int i = 0; i < 1000; i++)
        CHECK(bobbin_tree_update(other, NULL, 1, CHANGES(&few), hash) == BobbinTreeStatus_Ok);
    is_over = true;
    CHECK(pthread_join(thread, NULL) == 0);
    bobbin_tree_draft_free(draft);
    bobbin_tree_free(tree);
    bobbin_tree_free(other);
}

/* Two trees with the same contents, each changed by a thread, and drafts of one that are merged into the other. What is
 * read has no meaning then, but it is there. */
static void *draft_across(void *given)
{
    BobbinTree **trees = given;
    for (int round = 0; round < 20 * ROUNDS; round++) {
        Changes changes = {0};
        uint8_t out[BOBBIN_TREE_HASH_BYTES];
        change_long(&changes, round % 3, 3 + round % 3, 1 + round % 5);
        change_numbers(&changes, 0, 5, round % 3);
        BobbinTreeDraft *below = bobbin_tree_draft_new(trees[0], NULL);
        BobbinTreeDraft *draft = bobbin_tree_draft_new(trees[1], below);
        CHECK(below != NULL && draft != NULL);
        CHECK(bobbin_tree_draft_update(below, NULL, 0, CHANGES(&changes), out) == BobbinTreeStatus_Ok);
        if (round % 2)
            bobbin_tree_merge(trees[1], below, round % 4 == 1);
        if (round % 3 == 0)
            bobbin_tree_draft_free(below);
        CHECK(bobbin_tree_draft_update(draft, NULL, 0, CHANGES(&changes), out) == BobbinTreeStatus_Ok);
        bobbin_tree_merge(trees[0], draft, 0);
        if (round % 3)
            bobbin_tree_draft_free(below);
        bobbin_tree_draft_free(draft);
    }
    return NULL;
}

static void check_across(void)
{
    BobbinTree *trees[3] = {new_tree(), new_tree(), NULL};
    trees[2] = trees[0];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, draft_across, trees + i % 2) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    bobbin_tree_free(trees[0]);
    bobbin_tree_free(trees[1]);
}

static void check_threads(void)
{
    BobbinTree *tree = new_tree();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, change_some, tree) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(bobbin_tree_len(tree) == THREADS * ROUNDS * OF_A_ROUND);
    CHECK(bobbin_tree_top(tree, hash) == BobbinTreeStatus_Ok);
    write_hash("threads");
    bobbin_tree_free(tree);
}

int main(void)
{
    check_story();
    check_second_merge();
    check_refusals();
    check_lifetimes();
    check_long_names();
    check_roots();
    check_threads();
    check_quick();
    check_across();
    return 0;
}
