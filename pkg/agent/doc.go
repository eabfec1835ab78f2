// Package agent runs agent programs, each on a terminal of its own, and moves
// them through the states of a supervised harness (LIF-1 to LIF-4).
//
// It owns their processes from spawn to the last of their group, their
// terminals, and what is on those screens. It never reads a config file, decides
// what should run, knows one agent program from another, or says who may attach.
//
// # How it is built
//
// A unit is a machine and a shell around it, as in package upstream. The machine
// (machine.go) is pure: words and results go in with the time, effects come out.
// The shell (unit.go) changes it under one lock and leaves the effects to one
// goroutine. A terminal (terminal.go) outlives the processes on it: it has the
// screen, the log and the viewers.
//
// # Decisions
//
// What is on the screen is kept by charmbracelet/x/vt, so that a viewer who joins
// sees what was drawn long before. It is fifty times slower than a program can
// print, so it follows behind: what it could not follow is left out, and the
// screen is made of the last 32 KiB. Neither the program, nor its log, nor a
// viewer ever waits for it.
//
// So drawing has a lock of its own, and the one that the reader of the terminal
// takes is never held for it, not even to repaint for a viewer.
//
// The emulator panics at some of what programs can print, and does what it is
// told a million times over. It is made anew after a panic, with the modes that
// were on, and repeats within a line only.
//
// A viewer has a queue of 256 KiB. One that does not read loses the queue and
// gets the screen as it is when it reads again: everybody else goes on.
//
// Programs ask their terminal what it is, and some wait for the answer. While
// nobody is attached who could answer, the screen does, in order, and not more
// than 32 answers ahead of a program that does not read them.
//
// An end of the terminal that nobody has open is looked at again while the
// process lives: some close it and open /dev/tty later.
//
// The terminal's output goes to the log as it came. Lines mean little on a
// terminal, and the bytes are escaped where they are shown (CFG-6).
package agent
