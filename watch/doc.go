// Package watch says that the content of some files may have changed, and
// nothing more: a [Watcher] holds a set of [Item]s (files, and directories of
// files) and raises one flag when what they hold differs from what it last
// said, was quiet for a while and was read twice the same.
//
// It owns one notifier (inotify through fsnotify), one goroutine and a digest
// for each file. It never tells what changed (the state does: whoever is woken
// reads it), never interprets a file, never writes one, and never compares the
// time of a file with a clock.
//
// # Decisions
//
// Directories are watched, never the files. A watch on a file follows the
// inode and goes silent for good at the first save that renames a new file into
// place. For each item the watch set is the directory of every symbolic link
// passed on the way, the directory of the file itself, and the parent of each
// of those; where a component is missing, the nearest directory that exists.
// The set is computed anew and added again before each read, so that nothing
// can happen between the two unseen. A directory renamed further up than that
// is found by the slow poll.
//
// Events wake, digests decide. No event is trusted to say what happened: every
// one of them leads to a look at all items. The name in an event is used only
// for timing: names no item passes through, such as an editor's swap file, do
// not prolong the quiet time and cause at most one look in Options.Longest.
//
// A look costs little. A file that has had the same device, inode, size and
// times for four seconds, and was read after that, is not read again by a look
// that an event caused; polls read everything, so what such an identity cannot
// tell (a write through a shared mapping) is found by them.
//
// Absence needs patience. Many editors and git replace a file by removing it
// first, so a file that is gone counts as gone after 300 ms only, unless
// another change is signalled before that: whoever is woken then reads the
// directory as it is, and is not told the same thing twice.
//
// fsnotify is used for inotify alone. Its limits are covered here: an overflow
// or any other error leads to a full look at once, a notifier that cannot be
// had or a directory that cannot be added to polling, network and FUSE file
// systems (which accept a watch and then report nothing of what others do) to
// polling as well, and a slow poll that reads everything runs always.
//
// All times are monotonic and all waiting happens in one select: the whole
// package runs inside a testing/synctest bubble.
package watch
