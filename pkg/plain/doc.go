// Package plain turns text from files and children into text that is safe to
// show: in a log line, a table or a terminal (CFG-6).
// It owns the decision which characters are shown as an escape.
// It never shortens, wraps or colours anything, and does no I/O.
//
// # Decisions
//
//   - Every control character is escaped, tab and newline included: a caller
//     that wants lines splits first.
//   - A backslash is left alone. The result is for eyes, not for reading back,
//     and Windows paths and regular expressions stay legible.
package plain
