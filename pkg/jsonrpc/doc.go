// Package jsonrpc is the wire format both sides of harness speak: one JSON-RPC
// message a line, read, looked into, altered at a few places and written
// again, without ever being decoded (MCP-3, PRF-1).
//
// It owns the buffers lines are read into and queued in, and the words the
// broker and an upstream use with each other about one call ([Call], [Owner],
// [Pending]). It never knows what a method means, never opens or closes a
// connection, never logs, and never changes a byte that no [Edit] names.
//
// # Decisions
//
// Why no encoding/json on the relay path: it decodes, so large numbers,
// unknown keys, key order and the spelling of numbers are lost or cost a
// RawMessage a level, and it allocates. [Peek] finds where things are in one
// pass and leaves them there. [Valid] and [PeekValid] accept exactly what
// json.Valid accepts, if it is UTF-8 as well; the fuzz targets hold them to
// that. What is rare and small (an escaped string) does go through
// encoding/json.
//
// Why words of eight bytes instead of a loop over bytes: most of a large
// message is one string, and the whole cost of a relayed message beside its
// copy is the search for that string's end.
//
// Why one non-blocking write(2) on the caller's goroutine: a goroutine for
// each destination costs two context switches a message, and writing to a
// destination that does not read must never hold up the others (MCP-6). Only
// what the kernel did not take is queued, and only then does a goroutine run.
//
// Why weak pointers for large buffers: a message of megabytes is often
// followed by the next one, or by nothing for an hour. The collector is the
// one who knows when memory is short of use; until it runs, the buffer is
// there to be used again.
package jsonrpc
