/* The C interface of Bobbin's reactive protocol: frames that are checked, rewritten in one spelling and queued.
 *
 * A frame is one message in JSON: a snapshot, a delta, a CRDT sync, a request for a snapshot, or an acknowledgement.
 * Two forms are known, the one with a "type" field and the one that published peers speak, with one key that names the
 * kind. Whatever comes in is decoded in full and written again in the form it came in: without white space, fields in
 * their order, each value in its only spelling. Two frames of a form that mean the same come out as the same bytes.
 * What does not decode comes out as LazilyFfiStatus_InvalidMessage and leaves nothing behind.
 *
 * Ownership. Bytes that go in stay the caller's: they are copied, and may be changed or freed after the call. Bytes
 * that come out belong to the library until lazily_ffi_bytes_free, which must be called once for each; they outlive the
 * channel they came from.
 *
 * Threads. Every function may be called from any thread. A channel may be used by several at once, but not while or
 * after lazily_ffi_channel_free.
 *
 * No call ends the process or jumps out of the library. Where memory runs out the status is LazilyFfiStatus_Panic and
 * nothing has changed.
 */
#ifndef LAZILY_H
#define LAZILY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LAZILY_API __attribute__((visibility("default")))
#else
#define LAZILY_API
#endif

/* A longer frame is refused before it is read. */
#define LAZILY_FFI_FRAME_BYTES_MAX ((size_t)16 * 1024 * 1024)
/* A channel takes no further frame once it would hold more than this. */
#define LAZILY_FFI_CHANNEL_BYTES_MAX ((size_t)64 * 1024 * 1024)

typedef struct {
    uint8_t *ptr;
    size_t len;
} LazilyFfiBytes;

typedef enum {
    LazilyFfiStatus_Ok = 0,
    /* There is nothing to receive. */
    LazilyFfiStatus_Empty = 1,
    LazilyFfiStatus_NullPointer = 2,
    /* Not a message, or a frame that is too long. */
    LazilyFfiStatus_InvalidMessage = 3,
    /* A message, but its one spelling is longer than a frame may be, or the channel is full. */
    LazilyFfiStatus_EncodeFailed = 4,
    /* Memory ran out. */
    LazilyFfiStatus_Panic = 5,
} LazilyFfiStatus;

typedef enum {
    LazilyFfiMessageKind_Unknown = 0,
    LazilyFfiMessageKind_Snapshot = 1,
    LazilyFfiMessageKind_Delta = 2,
    LazilyFfiMessageKind_CrdtSync = 3,
    LazilyFfiMessageKind_ResyncRequest = 4,
    LazilyFfiMessageKind_OutboxAck = 5,
} LazilyFfiMessageKind;

/* A queue of frames, first in, first out. */
typedef struct LazilyFfiChannel LazilyFfiChannel;

/* Whether some bytes are a message. */
LAZILY_API LazilyFfiStatus lazily_ffi_ipc_message_validate_json(const uint8_t *ptr, size_t len);

/* What kind of message some bytes are; Unknown whenever the status is not Ok. */
LAZILY_API LazilyFfiStatus lazily_ffi_ipc_message_kind_json(const uint8_t *ptr, size_t len, LazilyFfiMessageKind *out);

/* The one spelling of a message; a null pointer and 0 whenever the status is not Ok. */
LAZILY_API LazilyFfiStatus lazily_ffi_ipc_message_clone_json(const uint8_t *ptr, size_t len, LazilyFfiBytes *out);

/* Gives back what a function of this library put into an `out`. Nothing happens to a null pointer. */
LAZILY_API void lazily_ffi_bytes_free(LazilyFfiBytes bytes);

/* An empty channel, or a null pointer where memory ran out. */
LAZILY_API LazilyFfiChannel *lazily_ffi_channel_new(void);

/* Ends a channel, with the frames that nobody received. */
LAZILY_API LazilyFfiStatus lazily_ffi_channel_free(LazilyFfiChannel *channel);

/* Decodes a frame and queues its one spelling. */
LAZILY_API LazilyFfiStatus lazily_ffi_channel_send_json(LazilyFfiChannel *channel, const uint8_t *ptr, size_t len);

/* Takes the oldest frame out; a null pointer and 0 whenever the status is not Ok. */
LAZILY_API LazilyFfiStatus lazily_ffi_channel_recv_json(LazilyFfiChannel *channel, LazilyFfiBytes *out);

/* How many frames are queued. */
LAZILY_API LazilyFfiStatus lazily_ffi_channel_len(LazilyFfiChannel *channel, size_t *out);

/* FNV-1a with 64 bits, the checksum of blobs in shared memory. */
LAZILY_API uint64_t lazily_fnv1a64(const uint8_t *ptr, size_t len);

#ifdef __cplusplus
}
#endif

#endif
