// Package prompt turns markdown files with YAML front matter into prompts and
// fills in their arguments.
//
// It owns the rules of prompt files: which directory entries are looked at,
// what front matter may say, where the body starts, what a placeholder is,
// which of two equal names wins, and what stays served while a file is broken.
// It never decides when to read, never talks MCP and never rewrites a name to
// suit an agent; a file it cannot use costs that file alone.
//
// Everything but osfs.go is a function of its arguments: Parse and Collect take
// bytes, ReadDir takes an [FS].
//
// # Text as it stands
//
// A file is UTF-8, at most [MaxFile] bytes. A byte order mark at its start is
// dropped. Front matter is there only if line 1 is `---` (blanks may follow);
// any other first line, an empty one included, makes the whole file the body.
// What follows the closing `---` line is the body, byte for byte: CRLF stays
// CRLF, a missing last newline stays missing, leading empty lines stay.
//
// # Decisions
//
//   - goldmark-meta reads the front matter. It takes every line of dashes for a
//     fence, lets the last of two equal keys win and hides the body, so it stands
//     behind a block parser of ours that is handed the front matter alone and
//     knows one fence; duplicates are found in its ordered items.
//   - goldmark-meta tells no line of a key. yaml.v2, which it uses, names the
//     line of a value that does not fit, so a second decoding into a type that
//     nothing fits yields the line of each key; it is made only when there is
//     something to report.
//   - Digest is taken over what a prompt says, not over the file: a comment added
//     to the front matter is a save without meaning.
package prompt
