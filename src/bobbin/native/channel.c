/* The functions of lazily.h, but for the checksum. */
#define _POSIX_C_SOURCE 200809L

#include "lazily.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

typedef struct Frame {
    struct Frame *next;
    LazilyFfiBytes bytes;
} Frame;

struct LazilyFfiChannel {
    pthread_mutex_t lock;
    Frame *first;
    Frame *last;
    size_t count;
    size_t bytes;
};

static const LazilyFfiBytes NOTHING = {NULL, 0};

static LazilyFfiStatus status_of(LzResult result)
{
    switch (result) {
    case LZ_OK:
        return LazilyFfiStatus_Ok;
    case LZ_INVALID:
        return LazilyFfiStatus_InvalidMessage;
    case LZ_TOO_LONG:
        return LazilyFfiStatus_EncodeFailed;
    case LZ_NO_MEMORY:
    default:
        return LazilyFfiStatus_Panic;
    }
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

static LazilyFfiStatus look_at(const uint8_t *ptr, size_t len, LazilyFfiMessageKind *kind)
{
    LzOutput output = {.is_dry = true};
    LzResult result = lz_rewrite(ptr, len, &output, kind);
    lz_output_free(&output);
    return status_of(result);
}

LazilyFfiStatus lazily_ffi_ipc_message_validate_json(const uint8_t *ptr, size_t len)
{
    LazilyFfiMessageKind kind;
    return ptr == NULL ? LazilyFfiStatus_NullPointer : look_at(ptr, len, &kind);
}

LazilyFfiStatus lazily_ffi_ipc_message_kind_json(const uint8_t *ptr, size_t len, LazilyFfiMessageKind *out)
{
    if (out == NULL)
        return LazilyFfiStatus_NullPointer;
    *out = LazilyFfiMessageKind_Unknown;
    return ptr == NULL ? LazilyFfiStatus_NullPointer : look_at(ptr, len, out);
}

LazilyFfiStatus lazily_ffi_ipc_message_clone_json(const uint8_t *ptr, size_t len, LazilyFfiBytes *out)
{
    if (out == NULL)
        return LazilyFfiStatus_NullPointer;
    *out = NOTHING;
    if (ptr == NULL)
        return LazilyFfiStatus_NullPointer;
    LzOutput output = {.length_max = LAZILY_FFI_FRAME_BYTES_MAX};
    LazilyFfiMessageKind kind;
    LzResult result = lz_rewrite(ptr, len, &output, &kind);
    if (result != LZ_OK) {
        lz_output_free(&output);
        return status_of(result);
    }
    *out = (LazilyFfiBytes){output.bytes, output.length};
    return LazilyFfiStatus_Ok;
}

void lazily_ffi_bytes_free(LazilyFfiBytes bytes)
{
    free(bytes.ptr);
}

/* ---- channels --------------------------------------------------------------------------------------------------- */

LazilyFfiChannel *lazily_ffi_channel_new(void)
{
    LazilyFfiChannel *channel = calloc(1, sizeof *channel);
    if (channel != NULL && pthread_mutex_init(&channel->lock, NULL) != 0) {
        free(channel);
        return NULL;
    }
    return channel;
}

LazilyFfiStatus lazily_ffi_channel_free(LazilyFfiChannel *channel)
{
    if (channel == NULL)
        return LazilyFfiStatus_NullPointer;
    for (Frame *frame = channel->first, *next; frame != NULL; frame = next) {
        next = frame->next;
        free(frame->bytes.ptr);
        free(frame);
    }
    pthread_mutex_destroy(&channel->lock);
    free(channel);
    return LazilyFfiStatus_Ok;
}

/* Whether there was room. */
static bool append(LazilyFfiChannel *channel, Frame *frame)
{
    pthread_mutex_lock(&channel->lock);
    bool has_room = frame->bytes.len <= LAZILY_FFI_CHANNEL_BYTES_MAX - channel->bytes;
    if (has_room) {
        if (channel->last != NULL)
            channel->last->next = frame;
        else
            channel->first = frame;
        channel->last = frame;
        channel->count++;
        channel->bytes += frame->bytes.len;
    }
    pthread_mutex_unlock(&channel->lock);
    return has_room;
}

LazilyFfiStatus lazily_ffi_channel_send_json(LazilyFfiChannel *channel, const uint8_t *ptr, size_t len)
{
    if (channel == NULL || ptr == NULL)
        return LazilyFfiStatus_NullPointer;
    Frame *frame = calloc(1, sizeof *frame);
    if (frame == NULL)
        return LazilyFfiStatus_Panic;
    LazilyFfiStatus status = lazily_ffi_ipc_message_clone_json(ptr, len, &frame->bytes);
    if (status == LazilyFfiStatus_Ok && !append(channel, frame))
        status = LazilyFfiStatus_EncodeFailed;
    if (status != LazilyFfiStatus_Ok) {
        free(frame->bytes.ptr);
        free(frame);
    }
    return status;
}

LazilyFfiStatus lazily_ffi_channel_recv_json(LazilyFfiChannel *channel, LazilyFfiBytes *out)
{
    if (out == NULL)
        return LazilyFfiStatus_NullPointer;
    *out = NOTHING;
    if (channel == NULL)
        return LazilyFfiStatus_NullPointer;
    pthread_mutex_lock(&channel->lock);
    Frame *frame = channel->first;
    if (frame != NULL) {
        channel->first = frame->next;
        if (channel->first == NULL)
            channel->last = NULL;
        channel->count--;
        channel->bytes -= frame->bytes.len;
    }
    pthread_mutex_unlock(&channel->lock);
    if (frame == NULL)
        return LazilyFfiStatus_Empty;
    *out = frame->bytes;
    free(frame);
    return LazilyFfiStatus_Ok;
}

LazilyFfiStatus lazily_ffi_channel_len(LazilyFfiChannel *channel, size_t *out)
{
    if (out == NULL)
        return LazilyFfiStatus_NullPointer;
    *out = 0;
    if (channel == NULL)
        return LazilyFfiStatus_NullPointer;
    pthread_mutex_lock(&channel->lock);
    *out = channel->count;
    pthread_mutex_unlock(&channel->lock);
    return LazilyFfiStatus_Ok;
}
