/* The contract of lazily.h, from a program that is linked against the built library and knows nothing else of it. */
#include <lazily.h>

#include <pthread.h>
#include <stdbool.h>

#include "checks.h"

static const char *const SPELLINGS[][2] = {
    {" { \"Delta\" : {\"epoch\":2 , \"ops\":[ ] , \"base_epoch\":1} } ",
     "{\"Delta\":{\"base_epoch\":1,\"epoch\":2,\"ops\":[]}}"},
    {"{\"ops\":[{\"payload\":\"QR==\",\"slot_id\":7,\"op\":\"cell_set\"}],"
     "\"epoch\":2,\"base_epoch\":-0,\"type\":\"delta\"}",
     "{\"type\":\"delta\",\"base_epoch\":0,\"epoch\":2,"
     "\"ops\":[{\"op\":\"cell_set\",\"slot_id\":7,\"payload\":\"QQ==\"}]}"},
    {"{\"ResyncRequest\":{\"from_epoch\":18446744073709551615}}",
     "{\"ResyncRequest\":{\"from_epoch\":18446744073709551615}}"},
    {"{\"Snapshot\":{\"roots\":[1],\"edges\":[],\"nodes\":[{\"state\":{\"Payload\":[ 1, 255 ]},\"key\":null,"
     "\"type_tag\":\"\\u0061\\u001F\",\"node\":1}],\"epoch\":0}}",
     "{\"Snapshot\":{\"epoch\":0,\"nodes\":[{\"node\":1,\"type_tag\":\"a\\u001f\",\"state\":{\"Payload\":[1,255]}}],"
     "\"edges\":[],\"roots\":[1]}}"},
};

static const char *const INVALID[] = {
    "", "garbage", "{", "null", "[]", "{}", "{\"Snapshot\":{}}",
    "{\"Delta\":{\"base_epoch\":1,\"epoch\":2,\"ops\":[]}} x",
    "{\"ResyncRequest\":{\"from_epoch\":18446744073709551616}}", "{\"ResyncRequest\":{\"from_epoch\":-1}}",
    "{\"ResyncRequest\":{\"from_epoch\":1.0}}", "{\"ResyncRequest\":{\"from_epoch\":1,\"from_epoch\":1}}",
    "{\"ResyncRequest\":{\"from_epoch\":1,\"more\":1}}", "{\"OutboxAck\":{\"through_epoch\":\"1\"}}",
    "{\"Unknown\":{\"from_epoch\":1}}", "{\"type\":\"unknown\"}",
};

static void check_layout(void)
{
    CHECK(offsetof(LazilyFfiBytes, ptr) == 0);
    CHECK(offsetof(LazilyFfiBytes, len) == sizeof(uint8_t *));
    CHECK(sizeof(((LazilyFfiBytes *)0)->len) == sizeof(size_t));
    CHECK(sizeof(LazilyFfiBytes) == sizeof(uint8_t *) + sizeof(size_t));
    CHECK(LazilyFfiStatus_Ok == 0 && LazilyFfiStatus_Empty == 1 && LazilyFfiStatus_NullPointer == 2);
    CHECK(LazilyFfiStatus_InvalidMessage == 3 && LazilyFfiStatus_EncodeFailed == 4 && LazilyFfiStatus_Panic == 5);
    CHECK(LazilyFfiMessageKind_Unknown == 0 && LazilyFfiMessageKind_Snapshot == 1 && LazilyFfiMessageKind_Delta == 2);
    CHECK(LazilyFfiMessageKind_CrdtSync == 3 && LazilyFfiMessageKind_ResyncRequest == 4);
    CHECK(LazilyFfiMessageKind_OutboxAck == 5);
}

static bool is_text(LazilyFfiBytes bytes, const char *text)
{
    return bytes.len == strlen(text) && memcmp(bytes.ptr, text, bytes.len) == 0;
}

static void check_messages(void)
{
    for (size_t i = 0; i < sizeof SPELLINGS / sizeof SPELLINGS[0]; i++) {
        LazilyFfiBytes bytes;
        CHECK(lazily_ffi_ipc_message_validate_json(BYTES(SPELLINGS[i][0])) == LazilyFfiStatus_Ok);
        CHECK(lazily_ffi_ipc_message_clone_json(BYTES(SPELLINGS[i][0]), &bytes) == LazilyFfiStatus_Ok);
        CHECK(is_text(bytes, SPELLINGS[i][1]));
        LazilyFfiBytes again;
        CHECK(lazily_ffi_ipc_message_clone_json(bytes.ptr, bytes.len, &again) == LazilyFfiStatus_Ok);
        CHECK(is_text(again, SPELLINGS[i][1]));
        lazily_ffi_bytes_free(again);
        lazily_ffi_bytes_free(bytes);
    }
    LazilyFfiMessageKind kind;
    CHECK(lazily_ffi_ipc_message_kind_json(BYTES(SPELLINGS[0][0]), &kind) == LazilyFfiStatus_Ok);
    CHECK(kind == LazilyFfiMessageKind_Delta);
    CHECK(lazily_ffi_ipc_message_kind_json(BYTES(SPELLINGS[3][0]), &kind) == LazilyFfiStatus_Ok);
    CHECK(kind == LazilyFfiMessageKind_Snapshot);
}

static void check_refusals(void)
{
    LazilyFfiChannel *channel = lazily_ffi_channel_new();
    CHECK(channel != NULL);
    for (size_t i = 0; i < sizeof INVALID / sizeof INVALID[0]; i++) {
        LazilyFfiBytes bytes = {(uint8_t *)1, 1};
        LazilyFfiMessageKind kind = LazilyFfiMessageKind_Delta;
        CHECK(lazily_ffi_ipc_message_validate_json(BYTES(INVALID[i])) == LazilyFfiStatus_InvalidMessage);
        CHECK(lazily_ffi_ipc_message_kind_json(BYTES(INVALID[i]), &kind) == LazilyFfiStatus_InvalidMessage);
        CHECK(kind == LazilyFfiMessageKind_Unknown);
        CHECK(lazily_ffi_ipc_message_clone_json(BYTES(INVALID[i]), &bytes) == LazilyFfiStatus_InvalidMessage);
        CHECK(bytes.ptr == NULL && bytes.len == 0);
        CHECK(lazily_ffi_channel_send_json(channel, BYTES(INVALID[i])) == LazilyFfiStatus_InvalidMessage);
    }
    size_t count = 1;
    CHECK(lazily_ffi_channel_len(channel, &count) == LazilyFfiStatus_Ok && count == 0);
    CHECK(lazily_ffi_channel_free(channel) == LazilyFfiStatus_Ok);
}

static void check_null_pointers(void)
{
    const uint8_t byte = 0;
    LazilyFfiBytes bytes = {(uint8_t *)1, 1};
    LazilyFfiMessageKind kind;
    size_t count;
    LazilyFfiChannel *channel = lazily_ffi_channel_new();
    CHECK(channel != NULL);
    CHECK(lazily_ffi_ipc_message_validate_json(NULL, 0) == LazilyFfiStatus_NullPointer);
    CHECK(lazily_ffi_ipc_message_kind_json(NULL, 0, &kind) == LazilyFfiStatus_NullPointer);
    CHECK(lazily_ffi_ipc_message_kind_json(&byte, 1, NULL) == LazilyFfiStatus_NullPointer);
    CHECK(lazily_ffi_ipc_message_clone_json(NULL, 0, &bytes) == LazilyFfiStatus_NullPointer && bytes.ptr == NULL);
    CHECK(lazily_ffi_ipc_message_clone_json(&byte, 1, NULL) == LazilyFfiStatus_NullPointer);
    CHECK(lazily_ffi_channel_send_json(NULL, &byte, 1) == LazilyFfiStatus_NullPointer);
    CHECK(lazily_ffi_channel_send_json(channel, NULL, 0) == LazilyFfiStatus_NullPointer);
    CHECK(lazily_ffi_channel_recv_json(NULL, &bytes) == LazilyFfiStatus_NullPointer);
    CHECK(lazily_ffi_channel_recv_json(channel, NULL) == LazilyFfiStatus_NullPointer);
    CHECK(lazily_ffi_channel_len(NULL, &count) == LazilyFfiStatus_NullPointer);
    CHECK(lazily_ffi_channel_len(channel, NULL) == LazilyFfiStatus_NullPointer);
    CHECK(lazily_ffi_channel_free(NULL) == LazilyFfiStatus_NullPointer);
    CHECK(lazily_ffi_channel_free(channel) == LazilyFfiStatus_Ok);
    lazily_ffi_bytes_free((LazilyFfiBytes){NULL, 0});
}

/* The caller keeps its bytes, the library keeps what it gave out, also beyond the end of the channel. */
static void check_ownership(void)
{
    LazilyFfiChannel *channel = lazily_ffi_channel_new();
    CHECK(channel != NULL);
    LazilyFfiBytes received[3];
    CHECK(lazily_ffi_channel_recv_json(channel, &received[0]) == LazilyFfiStatus_Empty);
    CHECK(received[0].ptr == NULL && received[0].len == 0);
    for (int i = 0; i < 4; i++) {
        char frame[64];
        snprintf(frame, sizeof frame, " {\"OutboxAck\":{\"through_epoch\":%d}}", i);
        char *copy = malloc(strlen(frame));
        CHECK(copy != NULL);
        memcpy(copy, frame, strlen(frame));
        CHECK(lazily_ffi_channel_send_json(channel, (const uint8_t *)copy, strlen(frame)) == LazilyFfiStatus_Ok);
        memset(copy, 'x', strlen(frame));
        free(copy);
    }
    size_t count;
    CHECK(lazily_ffi_channel_len(channel, &count) == LazilyFfiStatus_Ok && count == 4);
    for (int i = 0; i < 3; i++)
        CHECK(lazily_ffi_channel_recv_json(channel, &received[i]) == LazilyFfiStatus_Ok);
    CHECK(lazily_ffi_channel_len(channel, &count) == LazilyFfiStatus_Ok && count == 1);
    CHECK(lazily_ffi_channel_send_json(channel, BYTES(SPELLINGS[0][0])) == LazilyFfiStatus_Ok);
    CHECK(lazily_ffi_channel_free(channel) == LazilyFfiStatus_Ok);
    for (int i = 0; i < 3; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "{\"OutboxAck\":{\"through_epoch\":%d}}", i);
        CHECK(is_text(received[i], expected));
        lazily_ffi_bytes_free(received[i]);
    }
}

/* Two threads on one channel: nothing is lost, and each thread's frames keep their order. */
enum { SENT = 200 };

static void *send_some(void *channel)
{
    for (int i = 0; i < SENT; i++) {
        char frame[64];
        snprintf(frame, sizeof frame, "{\"ResyncRequest\":{\"from_epoch\":%d}}", i);
        CHECK(lazily_ffi_channel_send_json(channel, BYTES(frame)) == LazilyFfiStatus_Ok);
    }
    return NULL;
}

static void check_threads(void)
{
    LazilyFfiChannel *channel = lazily_ffi_channel_new();
    CHECK(channel != NULL);
    pthread_t sender;
    CHECK(pthread_create(&sender, NULL, send_some, channel) == 0);
    for (int i = 0; i < SENT;) {
        LazilyFfiBytes bytes;
        LazilyFfiStatus status = lazily_ffi_channel_recv_json(channel, &bytes);
        if (status == LazilyFfiStatus_Empty)
            continue;
        CHECK(status == LazilyFfiStatus_Ok);
        char expected[64];
        snprintf(expected, sizeof expected, "{\"ResyncRequest\":{\"from_epoch\":%d}}", i++);
        CHECK(is_text(bytes, expected));
        lazily_ffi_bytes_free(bytes);
    }
    CHECK(pthread_join(sender, NULL) == 0);
    CHECK(lazily_ffi_channel_free(channel) == LazilyFfiStatus_Ok);
}

/* A frame of the greatest length, filled with something: {"ResyncRequest":{"from_epoch":1}} and white space. */
static void check_bounds(void)
{
    size_t length = LAZILY_FFI_FRAME_BYTES_MAX + 1;
    uint8_t *frame = malloc(length);
    CHECK(frame != NULL);
    const char message[] = "{\"ResyncRequest\":{\"from_epoch\":1}}";
    memset(frame, ' ', length);
    memcpy(frame, message, strlen(message));
    CHECK(lazily_ffi_ipc_message_validate_json(frame, length) == LazilyFfiStatus_InvalidMessage);
    CHECK(lazily_ffi_ipc_message_validate_json(frame, length - 1) == LazilyFfiStatus_Ok);
    memset(frame, '[', length);
    CHECK(lazily_ffi_ipc_message_validate_json(frame, length - 1) == LazilyFfiStatus_InvalidMessage);
    free(frame);
}

static void check_checksum(void)
{
    CHECK(lazily_fnv1a64(NULL, 0) == UINT64_C(0xCBF29CE484222325));
    CHECK(lazily_fnv1a64(BYTES("a")) == UINT64_C(0xAF63DC4C8601EC8C));
    CHECK(lazily_fnv1a64(BYTES("lazily shared-memory blob arena")) == UINT64_C(13098019626228322701));
}

int main(void)
{
    check_layout();
    check_messages();
    check_refusals();
    check_null_pointers();
    check_ownership();
    check_threads();
    check_bounds();
    check_checksum();
    puts("the contract holds");
    return 0;
}
