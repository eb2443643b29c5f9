/* SHA-256 of the library, in plain C and by instructions: the examples of the standard, and each the other's result.
 *
 * Linked with the sources themselves, for programs do not see these functions.
 */
#include "checks.h"
#include "tree_texts.h"

enum { LONGEST = 4500, PARTS = 3 };

static uint8_t text[LONGEST];

static void hash_of(const BtSha256 *way, const uint8_t *bytes, size_t length, uint8_t *out)
{
    uint32_t state[BT_STATE_WORDS];
    uint8_t tail[2 * BT_BLOCK_BYTES];
    size_t whole = length / BT_BLOCK_BYTES;
    memcpy(state, BT_SHA256_START, sizeof state);
    way->take(state, bytes, whole);
    memcpy(tail, bytes + whole * BT_BLOCK_BYTES, length % BT_BLOCK_BYTES);
    way->take(state, tail, bt_sha256_pad(tail, length) - whole);
    bt_sha256_put(state, out);
}

/* The examples of FIPS 180-4, and a million times the letter a. */
static void check_examples(const BtSha256 *way)
{
    static const struct {
        const char *text, *hash;
    } EXAMPLES[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
         "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    static const char MILLION[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    char found[2 * BT_HASH_BYTES + 1];
    uint8_t hash[BT_HASH_BYTES];
    uint8_t *million = malloc(1000000);
    CHECK(million != NULL);
    memset(million, 'a', 1000000);
    const size_t count = sizeof EXAMPLES / sizeof EXAMPLES[0];
    for (size_t i = 0; i <= count; i++) {
        if (i < count)
            hash_of(way, (const uint8_t *)EXAMPLES[i].text, strlen(EXAMPLES[i].text), hash);
        else
            hash_of(way, million, 1000000, hash);
        for (size_t byte = 0; byte < BT_HASH_BYTES; byte++)
            snprintf(found + 2 * byte, 3, "%02x", hash[byte]);
        CHECK(strcmp(found, i < count ? EXAMPLES[i].hash : MILLION) == 0);
    }
    free(million);
}

/* Two texts together are each of them alone, wherever in memory they begin. */
static void check_two(const BtSha256 *way)
{
    for (size_t blocks = 0; blocks < 5; blocks++)
        for (size_t shift = 0; shift < 17; shift++) {
            uint32_t states[2][BT_STATE_WORDS], expected[2][BT_STATE_WORDS];
            const uint8_t *texts[] = {text + shift, text + 1000 + 3 * shift};
            for (size_t i = 0; i < 2; i++) {
                memcpy(states[i], BT_SHA256_START, sizeof states[i]);
                memcpy(expected[i], BT_SHA256_START, sizeof expected[i]);
                states[i][7] = expected[i][7] += (uint32_t)i;
                BT_SHA256_PORTABLE.take(expected[i], texts[i], blocks);
            }
            way->take_two(states[0], texts[0], states[1], texts[1], blocks);
            CHECK(memcmp(states, expected, sizeof states) == 0);
        }
}

/* Texts of every length around the longest that waits and around the ends of blocks, in parts, after one another: each
 * has its hash however many others wait. */
static void check_texts(const BtSha256 *way)
{
    static uint8_t hashes[LONGEST][BT_HASH_BYTES];
    static size_t lengths[LONGEST];
    BtTexts texts;
    size_t count = 0;
    bt_texts_start(&texts, way);
    for (size_t length = 0; length < LONGEST; length += length < 300 || (length > 1970 && length < 2120) ? 1 : 61) {
        BtPart parts[PARTS] = {
            {text, length / 3}, {NULL, 0}, {text + length / 3, length - length / 3},
        };
        lengths[count] = length;
        bt_texts_add_parts(&texts, parts, PARTS, hashes[count++]);
        if (length % 7 == 0)
            bt_texts_end(&texts);
    }
    bt_texts_end(&texts);
    for (size_t i = 0; i < count; i++) {
        uint8_t expected[BT_HASH_BYTES];
        hash_of(&BT_SHA256_PORTABLE, text, lengths[i], expected);
        CHECK(memcmp(hashes[i], expected, BT_HASH_BYTES) == 0);
    }
}

int main(void)
{
    const BtSha256 *ways[] = {&BT_SHA256_PORTABLE, bt_sha256_instructions()};
    for (size_t i = 0; i < LONGEST; i++)
        text[i] = (uint8_t)(i * i + 7 * i);
    for (size_t i = 0; i < 2 && ways[i] != NULL; i++) {
        check_examples(ways[i]);
        check_two(ways[i]);
        check_texts(ways[i]);
    }
    CHECK(bt_sha256() == (ways[1] == NULL ? ways[0] : ways[1]));
    puts(ways[1] == NULL ? "plain C" : "plain C and instructions");
    return 0;
}
