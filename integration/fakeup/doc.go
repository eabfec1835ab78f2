// Package fakeup is an MCP server on stdio that misbehaves on request: every
// way in which a server was seen to trouble its client, by flag or by tool.
//
// It owns the program "fake-upstream", which Build makes out of this
// package's test binary, and the record such a process keeps of what it
// received. It never imports the code it is there to test.
//
//	start    -start-delay D  -start-marker FILE  -start-gate FILE  -banner TEXT
//	         -stderr-first N  -exit-on METHOD  -mute METHOD  -refuse METHOD
//	lists    -tools FILE  -prompts FILE  -resources FILE  -templates FILE (followed live)
//	         -count N  -page N  -storm  -instructions TEXT
//	more     -completion  -logging  -name TEXT
//	lines    -noise  -result-first  -read-delay D
//	process  -ignore-eof  -ignore-term  -heir  -family
//	record   -record FILE
//
// Its tools, with their arguments and defaults:
//
//	echo {text}             the text
//	raw {…}                 params as received, byte for byte, as structuredContent
//	pid, env {name}         of the process; all of the environment without a name
//	blob {bytes}, bigline   a text of that size; 5 MiB of awkward UTF-8 in one line
//	sleep {ms}, hang        answers late, or never
//	progress {n, ms}        n notifications to the progress token, ms apart
//	tag {tag}               answers in batches, last asked first
//	die {code}, last        exits without an answer (code 3); or after one without a newline
//	fail, rpcerror          a result with isError; a JSON-RPC error with data
//	noise                   junk lines around the answer
//	burst {n}               n list_changed at once
//	flood {bytes}, log {text} to stderr: a stream without newlines; one line
//	ask {method}            a request to the client; the answer is the result
//	deaf                    answers, then reads no more
//	update {uri}            says that a resource was updated, whoever subscribed
//	message {level, text}   sends a log message, whatever level was set
//
// A tool of the -tools file that is none of these answers with its own name.
// Prompts, resources and completions answer with the params as received, byte
// for byte, and with -name, as _meta.
//
// # Decisions
//
// Flags and not environment variables, because upstreams get no HARNESS_*.
// The test binary and not a command, because the tree has no place for one;
// built without -race, because tests run dozens of it on two cores.
package fakeup
