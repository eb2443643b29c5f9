/* A channel that is full refuses, says so, and takes frames again once there is room. */
#include <lazily.h>

#include "checks.h"

static const char HEAD[] = "{\"type\":\"delta\",\"base_epoch\":1,\"epoch\":2,\"ops\":["
                           "{\"op\":\"cell_set\",\"slot_id\":1,\"payload\":\"";
static const char TAIL[] = "\"}]}";

int main(void)
{
    LazilyFfiChannel *channel = lazily_ffi_channel_new();
    CHECK(channel != NULL);
    LazilyFfiBytes bytes;
    size_t count;

    uint8_t *frame = malloc(LAZILY_FFI_FRAME_BYTES_MAX);
    CHECK(frame != NULL);
    size_t symbols = (LAZILY_FFI_FRAME_BYTES_MAX - strlen(HEAD) - strlen(TAIL)) / 4 * 4;
    size_t length = strlen(HEAD) + symbols + strlen(TAIL);
    memcpy(frame, HEAD, strlen(HEAD));
    memset(frame + strlen(HEAD), 'A', symbols);
    memcpy(frame + strlen(HEAD) + symbols, TAIL, strlen(TAIL));

    for (int i = 0; i < 4; i++)
        CHECK(lazily_ffi_channel_send_json(channel, frame, length) == LazilyFfiStatus_Ok);
    CHECK(lazily_ffi_channel_send_json(channel, frame, length) == LazilyFfiStatus_EncodeFailed);
    CHECK(lazily_ffi_channel_len(channel, &count) == LazilyFfiStatus_Ok && count == 4);
    CHECK(lazily_ffi_channel_recv_json(channel, &bytes) == LazilyFfiStatus_Ok);
    CHECK(bytes.len == length && memcmp(bytes.ptr, frame, length) == 0);
    lazily_ffi_bytes_free(bytes);
    CHECK(lazily_ffi_channel_send_json(channel, frame, length) == LazilyFfiStatus_Ok);
    CHECK(lazily_ffi_channel_free(channel) == LazilyFfiStatus_Ok);

    /* A message whose one spelling is longer than a frame may be: null is written where nothing was. */
    static const char node[] = "{\"slot_id\":1,\"type_tag\":\"\",\"state\":\"unset\"},";
    static const char start[] = "{\"type\":\"snapshot\",\"epoch\":1,\"nodes\":[";
    static const char end[] = "],\"edges\":[],\"roots\":[]}";
    memcpy(frame, start, strlen(start));
    size_t at = strlen(start);
    while (at + strlen(node) + strlen(end) < LAZILY_FFI_FRAME_BYTES_MAX) {
        memcpy(frame + at, node, strlen(node));
        at += strlen(node);
    }
    memcpy(frame + at - 1, end, strlen(end));
    length = at - 1 + strlen(end);
    CHECK(lazily_ffi_ipc_message_validate_json(frame, length) == LazilyFfiStatus_Ok);
    CHECK(lazily_ffi_ipc_message_clone_json(frame, length, &bytes) == LazilyFfiStatus_EncodeFailed);
    CHECK(bytes.ptr == NULL && bytes.len == 0);

    free(frame);
    puts("a full channel refuses");
    return 0;
}
