// Package worktree makes git worktrees and remembers them (MUT-3): each on a
// branch of its own, from a commit that is pinned, recorded in a chain. It runs
// git and no hook of a repository, and never removes a worktree that has
// something in it which is not committed.
//
// # Decisions
//
// A worktree is in .worktrees of its repository, which git is told to overlook
// in info/exclude: it is under the roots that the repository is under, and moves
// with it.
//
// What was made is known from the chain, not from git: a worktree that somebody
// else made is not ours to remove.
package worktree
