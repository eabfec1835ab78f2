// Package workflow runs graphs of runs, and knows prompt packs (MUT-3). It owns
// the journal of each workflow: what was begun, what came of it, and what is
// next. It never starts a process; who launches its runs is given.
//
// # Decisions
//
// graph.go, pack.go, table.go and state.go are pure: text in, a graph or every fault of it
// out; a graph and a journal in, what to do next out. The engine appends to the
// journal before it acts, under the name that the act will have: a daemon that
// ends in between leaves a name to look for.
//
// A workflow is sealed when it starts, with the text of its prompts: an edit of
// a file is for the next one.
//
// After a crash nothing goes on by itself. What was under way is looked for: a
// run that ended is taken as it ended, one that did not is interrupted, and an
// explicit resume tries it again. A finished node never runs again.
//
// An approval is the operator's: an agent may resume a workflow, and its
// approvals wait on (MUT-4).
//
// The files are read as [config.Document]s: strictly, and every fault has its
// line. What they name that is elsewhere (files, harnesses, contracts) is asked
// for through [Outside], so that its faults have theirs too.
package workflow
